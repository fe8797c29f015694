"""What users and kubelets do to a cluster, and what is to be seen of it: objects in one namespace, by short names.

Pods ask for GPUs; nodes are created with what they have in their status, and KWOK makes them Ready. Waiting is always
for a condition, never for a time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from algorithm.quantity import parse_quantity
from tests.e2e.cluster import Cluster, describe

Object = dict[str, Any]
GPU = "example.com/gpu"
#: Seconds after which something that should happen counts as not happening.
PATIENCE = 20.0
_PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Event": "/api/v1/namespaces/{}/events",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "PodGroup": "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups",
}
_namespaces = count(1)


def eventually(condition: Callable[[], Any], what: object = "", *, seconds: float = PATIENCE) -> Any:
    """Wait until `condition` gives something true, and return it. `what` is shown if it never does, or is called."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.02)
    raise AssertionError(f"still not true after {seconds:g} s: {what() if callable(what) else what}")


class Hands:
    """An administrator of the cluster, in a namespace of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.http = cluster.client()
        self.enter_namespace()

    def story(self) -> str:
        """What happened, for assertions that fail."""
        return "\n".join(f"{pod['metadata']['name']} on {pod['spec'].get('nodeName')}" for pod in self.list("Pod"))

    # -- what users do ----------------------------------------------------------------------------------------------

    def create(self, item: Object) -> Object:
        made: Object = describe(self.http.post(self._path(item["kind"]), json=item))
        return made

    def enter_namespace(self) -> None:
        """A new one for each test: KWOK ends pods by their name, and may mean one of the test before."""
        self.namespace = f"t{next(_namespaces)}"
        self.create({"kind": "Namespace", "metadata": {"name": self.namespace}})

    def _path(self, kind: str) -> str:
        return _PATHS[kind].format(self.namespace)

    def node(self, name: str, *, gpus: int = 8, cpu: str = "64", pods: str = "110", **metadata: Any) -> None:
        amounts = {"cpu": cpu, "memory": "512Gi", "pods": pods, GPU: str(gpus)}
        status = {"capacity": amounts, "allocatable": amounts}
        self.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}, "status": status})

    def nodes(self, number: int, **each: Any) -> list[str]:
        """Nodes n0, n1 ..., and waits until they are Ready: becoming so is a reason to try refused pods again."""
        names = [f"n{i}" for i in range(number)]
        for name in names:
            self.node(name, **each)
        eventually(lambda: all(map(_is_ready, self.list("Node"))), "all nodes are Ready")
        return names

    def pod(self, name: str, *, gang: tuple[str, int] | None = None, annotations: Any = None, **more: Any) -> str:
        """Creates a pod; its UID. `more` is as for pod_spec."""
        notes = dict(annotations or {})
        if gang is not None:
            notes |= {"waggle.dev/gang": gang[0], "waggle.dev/gang-min": str(gang[1])}
        metadata = {"name": name, "annotations": notes, "labels": more.pop("labels", {})}
        if finalizers := more.pop("finalizers", None):
            metadata["finalizers"] = finalizers
        spec = self.pod_spec(**more)
        item = {"kind": "Pod", "metadata": metadata, "spec": spec}
        # The API server admits a pod by its own informer, which may not have shown a new PriorityClass yet.
        made = eventually(lambda: self._admitted(item), f"{name} is admitted")
        uid: str = made["metadata"]["uid"]
        return uid

    def _admitted(self, item: Object) -> Object | None:
        answer = self.http.post(self._path("Pod"), json=item)
        too_early = answer.status_code == 403 and "no PriorityClass with name" in answer.text
        return None if too_early else describe(answer)

    def pod_spec(
        self, *, gpus: int = 0, cpu: str = "100m", priority: int = 0, preempts: bool = True, **spec: Any
    ) -> Object:
        amounts = {GPU: str(gpus)} if gpus else {}
        resources = {"requests": {"cpu": cpu, **amounts}, "limits": amounts}
        if priority:
            spec["priorityClassName"] = self._priority_class(priority, preempts=preempts)
        containers = [{"name": "main", "image": "registry.test/app:1", "resources": resources}]
        return {"containers": containers, "terminationGracePeriodSeconds": 1, **spec}

    def _priority_class(self, value: int, *, preempts: bool) -> str:
        """Creates it where it is not there yet; its name."""
        name = f"p{value}{'' if preempts else '-polite'}"
        policy = "PreemptLowerPriority" if preempts else "Never"
        answer = self.http.post(
            self._path("PriorityClass"),
            json={"metadata": {"name": name}, "value": value, "preemptionPolicy": policy},
        )
        assert answer.is_success or answer.status_code == 409, answer.text
        return name

    def gang(self, name: str, size: int, *, minimum: int = 0, **more: Any) -> list[str]:
        """The names of its members."""
        names = [f"{name}-{i}" for i in range(size)]
        for each in names:
            self.pod(each, gang=(name, minimum or size), **more)
        return names

    def delete(self, name: str, kind: str = "Pod", *, grace: int | None = None) -> None:
        query = {} if grace is None else {"gracePeriodSeconds": str(grace)}
        describe(self.http.delete(f"{self._path(kind)}/{name}", params=query))

    def patch(self, name: str, body: Any, kind: str = "Pod", *, part: str = "") -> Object:
        """A merge patch; `part` may be status."""
        path = f"{self._path(kind)}/{name}{f'/{part}' if part else ''}"
        patched: Object = describe(
            self.http.patch(path, json=body, headers={"content-type": "application/merge-patch+json"})
        )
        return patched

    # -- what is to be seen -----------------------------------------------------------------------------------------

    def get(self, name: str, kind: str = "Pod") -> Object | None:
        answer = self.http.get(f"{self._path(kind)}/{name}")
        return None if answer.status_code == 404 else describe(answer)

    def list(self, kind: str) -> list[Object]:
        items: list[Object] = describe(self.http.get(self._path(kind)))["items"]
        return items

    def node_of(self, name: str) -> str:
        found = self.get(name)
        return found["spec"].get("nodeName", "") if found else ""

    def places(self, names: Sequence[str]) -> list[str]:
        where = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.list("Pod")}
        return [where.get(name, "") for name in names]

    def place(self, name: str) -> str:
        """Waits until the pod is bound; its node."""
        node: str = eventually(lambda: self.node_of(name), lambda: f"{name} is bound\n{self.story()}")
        return node

    def all_placed(self, names: Sequence[str]) -> list[str]:
        """Waits until all are bound; their nodes."""

        def placed() -> list[str]:
            places = self.places(names)
            return places if all(places) else []

        found: list[str] = eventually(placed, lambda: f"{list(names)} are bound\n{self.story()}")
        return found

    def condition(self, name: str) -> Object:
        """The pod's PodScheduled condition, {} if there is none."""
        found = self.get(name) or {"status": {}}
        conditions = found["status"].get("conditions") or ()
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def message(self, name: str) -> str:
        text: str = self.condition(name).get("message", "")
        return text

    def refused(self, name: str, text: str = "") -> str:
        """Waits until kube-scheduler says that it cannot place the pod, with `text` in its words; the words."""

        def said() -> str:
            condition = self.condition(name)
            message: str = condition.get("message", "")
            return message if condition.get("status") == "False" and text in message else ""

        words: str = eventually(said, lambda: f"{name} is refused with {text!r}: {self.condition(name)}")
        return words

    def events(self, name: str, reason: str = "") -> list[Object]:
        """The Events on a pod, with that reason if one is given."""
        mine = [each for each in self.list("Event") if each["involvedObject"]["name"] == name]
        return [each for each in mine if not reason or each["reason"] == reason]

    # -- the end ----------------------------------------------------------------------------------------------------

    def overcommitted(self) -> list[str]:
        """Nodes with more GPUs or pods on them than they have."""
        room = {node["metadata"]["name"]: node["status"]["allocatable"] for node in self.list("Node")}
        used: Counter[tuple[str, str]] = Counter()
        for pod in self.list("Pod"):
            ended = pod["status"].get("phase") in ("Succeeded", "Failed")
            if (node := pod["spec"].get("nodeName")) in room and not ended:
                used[node, "pods"] += 1
                for container in pod["spec"]["containers"]:
                    requests = container.get("resources", {}).get("requests", {})
                    used[node, GPU] += parse_quantity(requests.get(GPU, "0"))
        return [
            f"{node}: {amount} {what}"
            for (node, what), amount in used.items()
            if amount > parse_quantity(room[node].get(what, "0"))
        ]

    def remove_all(self) -> None:
        """Removes all that tests create."""
        for kind in ("ReplicaSet", "StatefulSet", "PodDisruptionBudget", "Pod", "Node", "Event"):
            self._clear(kind)
        eventually(lambda: not self.list("Pod"), "all pods are gone")
        eventually(lambda: not self.list("Node"), "all nodes are gone")

    def _clear(self, kind: str) -> None:
        for item in self.list(kind):
            if item["metadata"].get("finalizers"):
                self.patch(item["metadata"]["name"], {"metadata": {"finalizers": None}}, kind)
        query = {"gracePeriodSeconds": "0"} if kind == "Pod" else {}
        describe(self.http.delete(self._path(kind), params=query))


def _is_ready(node: Object) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
