"""What an e2e test does and sees: users' and kubelets' side of a cluster, with Waggle and kube-scheduler at work on it.

    with world(cluster, programs) as w:
        w.node("n0")
        w.pod("p", gpus=2)
        assert w.place("p") == "n0"

Waggle is a `waggle serve` process of its own, under its own user with its own rights; kube-scheduler is the real one;
between them stands a Gate that sees every call. At the end of a world everything in the cluster is removed, and it is
checked that nobody over-committed a node, and that none of the processes ended by itself.
"""

from __future__ import annotations

import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import yaml

from algorithm.quantity import parse_quantity
from tests.e2e.certificates import Pair
from tests.e2e.cluster import Cluster, describe, trusting
from tests.e2e.gate import Gate
from tests.e2e.processes import Process, ProcessError, free_port
from tests.e2e.scheduler_config import DEFAULT_PROFILE, write

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


class World:
    """One cluster with one kube-scheduler and one Waggle. `programs` are the executables by name."""

    def __init__(
        self,
        cluster: Cluster,
        programs: Mapping[str, Path],
        *,
        scheduler: str = "kube-scheduler",
        extender: Mapping[str, Any] | None = None,
        profiles: Sequence[str] = (DEFAULT_PROFILE,),
        scheduler_flags: Sequence[str] = (),
        configuration: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        identity: tuple[Path, Pair] | None = None,
        folder: str = "world",
    ) -> None:
        """`extender` and `configuration` change fields of the extender and of the KubeSchedulerConfiguration.

        `identity`: whom to trust as Waggle, and what to show it, where it serves mutual TLS.
        """
        self.cluster = cluster
        self.folder = cluster.folder / folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.http = cluster.client()
        self._enter_namespace()
        self.gate = Gate()
        self.waggle: Process | None = None
        self.waggle_url = ""
        self.scheduler: Process | None = None
        self.scheduler_url = ""
        self._programs = programs
        self._scheduler_program = scheduler
        self._scheduler_flags = scheduler_flags
        self._extender, self._profiles = dict(extender or {}), profiles
        self._configuration = dict(configuration or {})
        self._settings = dict(settings or {})
        self._trust: ssl.SSLContext | bool = trusting(*identity) if identity else False
        self.waggle_port = free_port()
        self._others: list[Process] = []

    # -- the servers ------------------------------------------------------------------------------------------------

    def start_waggle(self, *, wait: bool = True, api_server: str = "", **sections: Any) -> None:
        """Starts `waggle serve`, where it was before if it was. `api_server`: another way to the API server."""
        self._settings |= sections
        told, config = self.folder / "waggle.url", self.folder / "waggle.yaml"
        told.unlink(missing_ok=True)
        given = {"server": {"port": self.waggle_port}, "log": {"level": "info"}, **self._settings}
        given["cluster"] = {
            "kubeconfig": str(self.cluster.kubeconfig("waggle", server=api_server)),
            **given.get("cluster", {}),
        }
        given["holds"] = {"verify_seconds": 0.5, **given.get("holds", {})}
        config.write_text(yaml.safe_dump(given), encoding="utf-8")
        command = [sys.executable, "-m", "extender.cli", "serve", "--config", config, "--url-file", told]
        self.waggle = Process("waggle", command, self.folder / "waggle.log")
        self._until(told.exists, self.waggle, "Waggle does not serve")
        self.waggle_url = self.gate.extender = told.read_text(encoding="utf-8")
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        assert self.waggle is not None
        self._until(lambda: self.ask_waggle("/readyz", strict=False), self.waggle, "Waggle is not ready")

    def start_scheduler(self, *, url: str = "", flags: Sequence[str] = (), wait: bool = True) -> None:
        """Starts kube-scheduler with the gate as its extender, or whoever serves at `url`.

        `flags` are further ones of `waggle kube-scheduler-config`.
        """
        port = free_port()
        self.scheduler_url = f"https://127.0.0.1:{port}"
        config = write(
            self.folder / f"{self._scheduler_program}.yaml",
            kubeconfig=self.cluster.kubeconfig("kube-scheduler"),
            url=url or self.gate.url,
            flags=flags,
            extender=self._extender,
            profiles=self._profiles,
            json_only=self.cluster.name == "embedded",
            **self._configuration,
        )
        command = [
            self._programs[self._scheduler_program],
            f"--config={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/configz",
            "--v=3",
            *self._scheduler_flags,
        ]
        self.scheduler = Process("kube-scheduler", command, self.folder / f"{self._scheduler_program}.log")
        if wait:
            self._until(self._scheduler_is_healthy, self.scheduler, "kube-scheduler is not ready")

    def run(self, name: str, command: Sequence[str | Path]) -> Process:
        """Another process, which ends with this world."""
        process = Process(name, command, self.folder / f"{name}.log")
        self._others.append(process)
        return process

    def _scheduler_is_healthy(self) -> bool:
        """Ready means that its informers have delivered, too. Versions before 1.32 have no /readyz."""
        with suppress(httpx.TransportError), httpx.Client(verify=False) as client:
            answer = client.get(f"{self.scheduler_url}/readyz")
            if answer.status_code == 404:
                answer = client.get(f"{self.scheduler_url}/healthz")
            return answer.status_code == 200
        return False

    def _until(self, condition: Callable[[], Any], process: Process, what: str) -> None:
        def checked() -> Any:
            process.check()
            return condition()

        eventually(checked, lambda: f"{what}; {process.last_words()}")

    def close(self) -> None:
        for process in (self.scheduler, *self._others, self.waggle):
            if process is not None:
                process.stop()
        self.gate.__exit__(None, None, None)
        self.http.close()

    def check(self) -> None:
        """Raises ProcessError if kube-scheduler or Waggle has ended by itself."""
        for process in (self.scheduler, self.waggle):
            if process is not None:
                process.check()

    # -- what users do ----------------------------------------------------------------------------------------------

    def create(self, item: Object) -> Object:
        made: Object = describe(self.http.post(self._path(item["kind"]), json=item))
        return made

    def _enter_namespace(self) -> None:
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
        uid: str = self.create({"kind": "Pod", "metadata": metadata, "spec": spec})["metadata"]["uid"]
        return uid

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

    def ask_waggle(self, path: str, *, strict: bool = True) -> Any:
        """One of Waggle's pages; None if it does not answer 200, unless `strict`."""
        try:
            answer = httpx.get(f"{self.waggle_url}{path}", timeout=30, verify=self._trust)
        except httpx.TransportError:
            if strict:
                raise
            return None
        return describe(answer) if strict else (answer.json() if answer.is_success else None)

    def explain(self, name: str) -> Any:
        """Waggle's page about one pod."""
        return self.ask_waggle(f"/v1/explain/{self.namespace}/{name}")

    def counted(self, metric: str) -> dict[str, float]:
        """One of Waggle's metrics: value by labels, as Prometheus writes them."""
        lines = httpx.get(f"{self.waggle_url}/metrics", timeout=30, verify=self._trust).text.splitlines()
        mine = [line.rpartition(" ") for line in lines if line.startswith((f"{metric} ", f"{metric}{{"))]
        return {name.removeprefix(metric): float(value) for name, _, value in mine}

    def filters(self, *pods: str) -> int:
        """How often kube-scheduler has filtered these pods."""
        return len(self.gate.calls_of("filter", *pods))

    def story(self) -> str:
        """All pods, calls and events, for assertions that fail."""
        pods = [f"{pod['metadata']['name']} on {pod['spec'].get('nodeName')}" for pod in self.list("Pod")]
        calls = [f"{call.at:.3f} {call.verb} {call.pod} {call.nodes} -> {call.answer}" for call in self.gate.calls]
        events = [
            f"{e['involvedObject']['name']}: {e['reason']} {e.get('message') or e.get('note')}"
            for e in self.list("Event")
        ]
        return "\n".join([*pods, *calls, *events])

    def quiet(self, *, seconds: float = 0.6) -> int:
        """Waits until kube-scheduler has called nobody for so long; the number of calls until then."""

        def rested() -> bool:
            calls = self.gate.calls
            return not calls or (time.monotonic() - calls[-1].at > seconds and all(each.ended for each in calls))

        eventually(rested, lambda: f"quiet: {len(self.gate.calls)} calls, {self.gate.calls[-4:]}")
        return len(self.gate.calls)

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

    def clear(self) -> None:
        """Removes all that tests create, and forgets what was seen of it."""
        self.gate.forget()
        for kind in ("ReplicaSet", "StatefulSet", "PodDisruptionBudget", "Pod", "Node", "Event"):
            self._clear(kind)
        eventually(lambda: not self.list("Pod"), "all pods are gone")
        eventually(lambda: not self.list("Node"), "all nodes are gone")
        if self.waggle is not None and self.waggle.alive:
            eventually(self._waggle_knows_nothing, "Waggle has forgotten all")
        self._enter_namespace()
        self.gate.forget()

    def _clear(self, kind: str) -> None:
        for item in self.list(kind):
            if item["metadata"].get("finalizers"):
                self.patch(item["metadata"]["name"], {"metadata": {"finalizers": None}}, kind)
        query = {"gracePeriodSeconds": "0"} if kind == "Pod" else {}
        describe(self.http.delete(self._path(kind), params=query))

    def _waggle_knows_nothing(self) -> bool:
        pods = self.ask_waggle("/v1/inspect/pods", strict=False)
        nodes = self.ask_waggle("/v1/inspect/nodes", strict=False)
        return pods is not None and not pods["items"] and nodes is not None and not nodes["items"]


def _is_ready(node: Object) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@contextmanager
def world(
    cluster: Cluster, programs: Mapping[str, Path], *, waggle: bool = True, start: bool = True, **given: Any
) -> Iterator[World]:
    """A World with its processes running; `waggle` False: the gate plays the extender."""
    w = World(cluster, programs, **given)
    try:
        if start:
            if waggle:
                w.start_waggle(wait=False)
            w.start_scheduler()
            if waggle:
                w.wait_ready()
        yield w
        w.check()
        assert not w.overcommitted()
    finally:
        try:
            w.clear()
        finally:
            w.close()


__all__ = ["GPU", "Gate", "Object", "ProcessError", "World", "eventually", "world"]
