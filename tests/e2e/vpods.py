"""VPods on a real control plane: StatefulSets with their controller, a scheduler, two servers of vpods with a Lease.

    with vpod_cluster(plane, programs) as w:
        w.fleet(replicas=3, capacity=10)     # a StatefulSet and its VPodSet
        w.vpod("a", 5)
        assert w.placed("a") == {"fleet-0": 2, "fleet-1": 2, "fleet-2": 1}

A server has the account and the rights that manifests/vpods ships. Pods are made, scheduled, collected by the real
programs; KWOK runs them. At the end of a test all is removed, and it is checked what must have held at every moment;
see vpod_history.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.cluster import WAGGLES_NAMESPACE, ControlPlane, describe
from tests.e2e.hands import Hands, Object, eventually
from tests.e2e.processes import Process, free_port
from tests.e2e.vpod_history import History, named
from tests.support.kubectl import CRDS, Kubectl

#: The rights that servers of vpods have in the namespaces of sets.
SET_NAMESPACE = Path(__file__).parents[2] / "manifests" / "vpods" / "set-namespace.yaml"
HEAD = {"apiVersion": "waggle.dev/v1alpha1"}
WAGGLE = "/apis/waggle.dev/v1alpha1/namespaces/{}/{}"
MERGE = {"content-type": "application/merge-patch+json"}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
#: As shipped, but for the patience of a test.
ELECTION = {"enabled": True, "lease_seconds": 3, "renew_deadline_seconds": 2.4, "retry_seconds": 0.5}
#: Seconds without a write after which all is at rest: the pause of a server that has something to do is shorter.
_QUIET = 0.6
#: Sets that follow at once.
PROMPT = {"scaleDownSeconds": 0, "unreadySeconds": 1}


class VPodCluster(Hands):
    """A ControlPlane that others use, too, with a kube-scheduler, some nodes, and servers of vpods."""

    def __init__(
        self, plane: ControlPlane, programs: Mapping[str, Path], history: History, home: Path, **settings: Any
    ) -> None:
        """`settings` change the section `vpods` of the servers' configuration."""
        super().__init__(plane)
        self.plane, self.history, self.home = plane, history, home
        self._kubectl = programs["kubectl"]
        self.settings = {"enabled": True, "custom_resources": True, **settings}
        self.servers: dict[str, Process] = {}
        self.urls: dict[str, str] = {}
        #: Those that a test has ended.
        self._down: set[str] = set()
        self.waggle = httpx.Client(verify=False, timeout=30)
        #: The sets of the test: capacity by name.
        self._sets: dict[str, int] = {}
        self._scheduler = self._start_scheduler(programs["kube-scheduler"])
        self.bind_rights()

    def bind_rights(self) -> None:
        """Apply what an operator applies in a namespace with sets, and wait until the API server goes by it."""
        for binding in yaml.safe_load_all(SET_NAMESPACE.read_text(encoding="utf-8")):
            path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings"
            describe(self.http.post(path, json=binding))
        for asked in (("watch", "", "pods", ""), ("patch", "apps", "statefulsets", "scale")):
            eventually(lambda asked=asked: self._may(*asked), f"{asked} is allowed")  # type: ignore[misc]

    def _may(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        what = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        user = f"system:serviceaccount:{WAGGLES_NAMESPACE}:waggle-vpods"
        spec = {"user": user, "resourceAttributes": {"namespace": self.namespace, **what}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        allowed: bool = describe(self.http.post(path, json={"spec": spec}))["status"]["allowed"]
        return allowed

    # -- processes --------------------------------------------------------------------------------------------------

    def _start_scheduler(self, program: Path) -> Process:
        command = [
            program,
            f"--kubeconfig={self.plane.kubeconfig('kube-scheduler')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.home}",
        ]
        return Process("kube-scheduler", command, self.home / "kube-scheduler.log")

    def serve(self, *names: str, wait: bool = True) -> None:
        """Start servers of vpods, where they were before if they were."""
        for name in names:
            self._serve(name)
            self._down.discard(name)
        for name in names if wait else ():
            eventually(lambda name=name: self._is_ready(name), self.servers[name].last_words)  # type: ignore[misc]

    def _serve(self, name: str) -> None:
        config = self.home / f"{name}.yaml"
        if not config.exists():
            port = free_port()
            self.urls[name] = f"http://127.0.0.1:{port}"
            settings = {
                "server": {"port": port},
                "extender": {"enabled": False},
                "leader_election": {**ELECTION, "namespace": WAGGLES_NAMESPACE, "identity": name},
                "cluster": {"kubeconfig": str(self.plane.kubeconfig("waggle-vpods"))},
                "vpods": self.settings,
            }
            config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        command = [sys.executable, "-m", "extender.cli", "serve", "--config", config]
        environment = {"POD_NAME": name}
        self.servers[name] = Process(f"vpods {name}", command, self.home / f"{name}.log", environment=environment)

    def stop(self, *names: str) -> None:
        """End servers in order."""
        self._down.update(names)
        for name in names:
            self.servers[name].stop()

    def kill(self, *names: str) -> None:
        """End servers as a machine that loses power does."""
        self._down.update(names)
        for name in names:
            self.servers[name].kill()

    def serve_again(self) -> None:
        """Start all servers that a test has ended."""
        self.serve(*sorted(self._down))

    def _is_ready(self, name: str) -> bool:
        self.servers[name].check()
        try:
            return self.ask(name, "/readyz/vpods").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, name: str, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        return self.waggle.request(method, f"{self.urls[name]}{path}", **more)

    def leader(self) -> str:
        """Wait for the server that leads."""
        found: str = eventually(lambda: next(filter(self._leads, self.servers), ""), "one of them leads")
        return found

    def _leads(self, name: str) -> bool:
        return self.servers[name].alive and self.counted("waggle_leader", name).get("") == 1

    def counted(self, metric: str, name: str = "") -> dict[str, float]:
        """A metric of a server, of the leader unless it is named: value by labels, as Prometheus writes them."""
        try:
            text = self.ask(name or self.leader(), "/metrics").text
        except httpx.TransportError:
            return {}
        return {labels or "": float(value) for labels, value in re.findall(rf"^{metric}(\{{.*\}})? (\S+)$", text, re.M)}

    def logged(self, text: str) -> int:
        """How many lines with this text all servers have logged."""
        logs = (process.log.read_text(errors="replace") for process in self.servers.values())
        return sum(text in line for log in logs for line in log.splitlines())

    def waggle_vpods(self, command: str, *options: str, name: str = "fleet") -> Any:
        """What `waggle vpods COMMAND` prints about a set, which is JSON."""
        words = ["vpods", command, f"{self.namespace}/{name}", "--server", self.urls[self.leader()], *options]
        done = subprocess.run(
            [sys.executable, "-m", "extender.cli", *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"waggle {words}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self._kubectl, self.plane.kubeconfig("admin"), self.home, self.namespace)

    # -- sets -------------------------------------------------------------------------------------------------------

    def zoned_nodes(self, number: int, *, zones: int = 1) -> None:
        """n0, n1 ..., in zones in turn: those that are not there are made, what was done to the others is undone."""
        there = named(self.list("Node"))
        for index in range(number):
            name = f"n{index}"
            if name in there:
                self.patch(name, {"spec": {"unschedulable": None, "taints": None}}, "Node")
            else:
                labels = {HOST: name, ZONE: f"z{index % zones}"}
                self.node(name, gpus=0, pods="1000", cpu="1000", labels=labels)

    def stateful_set(self, name: str, replicas: int, **more: Any) -> None:
        """One whose pods are made, and deleted, all at once, as Knative's are; they spread over nodes."""
        labels = {"app": name}
        spread = {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
        pod = self.pod_spec(cpu="1m", topologySpreadConstraints=[spread])
        spec = {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **more,
        }
        self.create({"kind": "StatefulSet", "metadata": {"name": name}, "spec": spec})

    def fleet(self, name: str = "fleet", *, replicas: int, capacity: int, **spec: Any) -> None:
        """A StatefulSet and its VPodSet, of one name; the pods are ready, and the set is served."""
        self.stateful_set(name, replicas)
        self.vpod_set(name, capacity=capacity, **spec)
        self.ready(name, replicas)
        self.kubectl(f"wait --for=condition=Ready --timeout=20s vpodset/{name}")

    def vpod_set(self, name: str, *, capacity: int, **spec: Any) -> None:
        """The VPodSet of a StatefulSet that has its name."""
        self._sets[name] = capacity
        whole = {"statefulSet": name, "capacity": capacity, **PROMPT, **spec}
        self.make("VPodSet", name, whole)

    def make(self, kind: str, name: str, spec: Mapping[str, Any]) -> httpx.Response:
        """Create an object of Waggle's; whatever the API server answers."""
        body = {**HEAD, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return self.http.post(WAGGLE.format(self.namespace, f"{kind.lower()}s"), json=body)

    def ready(self, name: str, replicas: int) -> None:
        """Wait until so many pods of a StatefulSet are ready, and no others are there."""

        def is_ready() -> bool:
            status = self.get(name, "StatefulSet")["status"]  # type: ignore[index]
            return status.get("replicas", 0) == status.get("readyReplicas", 0) == replicas

        eventually(is_ready, lambda: f"{replicas} of {name}: {self.get(name, 'StatefulSet')}", seconds=40)

    def replicas(self, name: str = "fleet") -> int:
        """What the StatefulSet is to have."""
        found: int = self.get(name, "StatefulSet")["spec"]["replicas"]  # type: ignore[index]
        return found

    def pods_on(self, node: str) -> list[str]:
        return sorted(p["metadata"]["name"] for p in self.list("Pod") if p["spec"].get("nodeName") == node)

    # -- vpods ------------------------------------------------------------------------------------------------------

    def vpod(self, name: str, wanted: int, *, set_name: str = "fleet", **spec: Any) -> None:
        describe(self.make("VPod", name, {"set": set_name, "vreplicas": wanted, **spec}))

    def want(self, name: str, wanted: int) -> None:
        """As an autoscaler does it: through the sub-resource scale."""
        path = f"{WAGGLE.format(self.namespace, 'vpods')}/{name}/scale"
        describe(self.http.patch(path, json={"spec": {"replicas": wanted}}, headers=MERGE))

    def vpods(self) -> dict[str, Object]:
        return named(describe(self.http.get(WAGGLE.format(self.namespace, "vpods")))["items"])

    def reason(self, name: str) -> str:
        """The one of a vpod's condition, as of what it wants now; "" if it says nothing about that yet."""
        found = self.vpods()[name]
        is_current = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        return scheduled(found).get("reason", "") if is_current else ""

    def vpod_sets(self) -> dict[str, Object]:
        return named(describe(self.http.get(WAGGLE.format(self.namespace, "vpodsets")))["items"])

    def placed(self, name: str, *, seconds: float = 20) -> dict[str, int]:
        """Wait until a vpod has what it wants; its placements."""
        eventually(lambda: is_placed(self.vpods()[name]), lambda: str(self.vpods().get(name)), seconds=seconds)
        return placements(self.vpods()[name])

    def all_placed(self, *, seconds: float = 40) -> dict[str, dict[str, int]]:
        """Wait until all vpods have what they want; their placements."""
        end = time.monotonic() + seconds
        while waiting := [found for found in self.vpods().values() if not is_placed(found)]:
            assert time.monotonic() < end, f"not placed:\n{yaml.safe_dump(waiting[:3])}"
            time.sleep(min(0.5, 0.02 * len(waiting)))
        return {name: placements(found) for name, found in self.vpods().items()}

    def rest(self, name: str = "fleet", *, seconds: float = 40) -> dict[str, dict[str, int]]:
        """Wait until all vpods are placed and nothing has been written for a while; their placements."""
        end = time.monotonic() + seconds
        while True:
            self.all_placed(seconds=max(0.1, end - time.monotonic()))
            before = self.history.now(self.namespace)
            time.sleep(_QUIET)
            self.history.now(self.namespace)
            if not self.history.versions(self.namespace, name, since=before):
                return self.all_placed(seconds=0)
            assert time.monotonic() < end, self.history.story(self.namespace, name)

    def held(self, name: str = "fleet") -> dict[str, int]:
        """Vreplicas by pod of a set, those of all its vpods."""
        found: dict[str, int] = {}
        for vpod in self.vpods().values():
            if vpod["spec"]["set"] == name:
                for pod, number in placements(vpod).items():
                    found[pod] = found.get(pod, 0) + number
        return found

    def uneven(self, name: str = "fleet") -> list[str]:
        """VPods of which a pod has two more than another one that has room, among all pods of the set."""
        pods = [f"{name}-{ordinal}" for ordinal in range(self.replicas(name))]
        held, room = self.held(name), self._sets[name]
        found = []
        for vpod, item in self.vpods().items():
            counts = placements(item)
            least = min((counts.get(pod, 0) for pod in pods if held.get(pod, 0) < room), default=None)
            if least is not None and max(counts.values(), default=0) > least + 1:
                found.append(f"{vpod}: {counts}, held {held}")
        return found

    # -- what must have held, and the end ---------------------------------------------------------------------------

    def moves(self, name: str = "fleet", *, since: int = 0, now: bool = True) -> int:
        """How many vreplicas have moved; not `now`: as far as that is known already."""
        if now:
            self.history.now(self.namespace)
        return self.history.moves(self.namespace, name, since=since)

    def laws(self, *broken: str) -> None:
        """Raises AssertionError if something happened that never may; `broken`: except these."""
        self.history.now(self.namespace)
        for name, capacity in self._sets.items():
            found = {
                "overfull": self.history.overfull(self.namespace, name, capacity=capacity),
                "stranded": self.history.stranded(self.namespace, name),
                "lost": self.history.lost(self.namespace, name),
            }
            for law, moments in found.items():
                assert law in broken or not moments, f"{law}: {moments}\n{self.history.story(self.namespace, name)}"

    def check(self) -> None:
        """Raises ProcessError if a process has ended by itself."""
        for process in (self._scheduler, *(self.servers[name] for name in self.servers.keys() - self._down)):
            process.check()

    def clear(self) -> None:
        """Remove what a test has created, and go on in another namespace."""
        for plural in ("vpods", "vpodsets"):
            describe(self.http.delete(WAGGLE.format(self.namespace, plural)))
        for kind in ("PodDisruptionBudget", "StatefulSet", "Pod"):
            self._clear(kind)
        eventually(self._emptied, "all is gone")
        self._sets = {}
        self.enter_namespace()
        self.bind_rights()

    def _emptied(self) -> bool:
        """A controller that lags may make pods of a StatefulSet that is deleted already."""
        for pod in self.list("Pod"):
            self.http.delete(f"{self._path('Pod')}/{pod['metadata']['name']}", params={"gracePeriodSeconds": "0"})
        return not (self.list("Pod") or self.list("StatefulSet") or self.vpods())

    def close(self) -> None:
        for process in (*self.servers.values(), self._scheduler):
            process.stop()
        try:
            self.remove_all()
        finally:
            self.http.close()
            self.waggle.close()


def placements(vpod: Object) -> dict[str, int]:
    return {each["podName"]: each.get("vreplicas", 0) for each in vpod.get("status", {}).get("placements") or ()}


def scheduled(vpod: Object) -> Object:
    """The condition Scheduled; {} if there is none."""
    found: Object = next(iter(vpod.get("status", {}).get("conditions") or ()), {})
    return found


def is_placed(vpod: Object) -> bool:
    """Whether it has what it wants, and says so of what it wants now."""
    status = vpod.get("status", {})
    return (
        status.get("observedGeneration") == vpod["metadata"]["generation"]
        and scheduled(vpod).get("status") == "True"
        and status["reason"] == "Placed"
        and sum(placements(vpod).values()) == vpod["spec"]["vreplicas"]
    )


@contextmanager
def vpod_cluster(
    plane: ControlPlane,
    programs: Mapping[str, Path],
    home: Path,
    *resources: str,
    servers: tuple[str, ...] = ("a", "b"),
    nodes: int = 4,
    zones: int = 1,
    **settings: Any,
) -> Iterator[VPodCluster]:
    """A VPodCluster with nothing in it but nodes; `home` is for files. `resources` are watched as vpods, too.

    The definitions stay: sometimes the API server takes a minute to remove one.
    """
    admin = Kubectl(programs["kubectl"], plane.kubeconfig("admin"), home)
    admin("apply -k", str(CRDS))
    admin("wait --for=condition=Established --timeout=30s crd/vpods.waggle.dev crd/vpodsets.waggle.dev")
    with History(plane, *resources) as history:
        w = VPodCluster(plane, programs, history, home, **settings)
        try:
            w.zoned_nodes(nodes, zones=zones)
            w.serve(*servers)
            yield w
            w.check()
        finally:
            w.close()
