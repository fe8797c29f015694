"""Start-up ordering in one process: an API server, and servers of start-up ordering on sockets of their own.

If wanted, the extender is served in the same process, and a kube-scheduler calls it.

    with ordering_world() as w:
        w.pod("b", after="[{kind: Pod, name: a}]")
        w.gated("b")
        w.pod("a")
        w.running("b")

At its end the engines' invariants hold, and a witness has seen no pod lose a gate that is not Waggle's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from extender.core.ordering_names import AFTER, GATE
from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver import serve_in_thread as serve_cluster
from extender.embedded.kubescheduler.scheduler import KubeSchedulerStandIn
from extender.kube.client.kubeconfig import connect
from extender.kube.informers.reflector import Timing
from extender.server.ordering.service import OrderingService
from extender.server.process import ServerProcess
from extender.settings import ClusterSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.api import Api, eventually
from tests.support.cluster.claim_world import QUICK
from tests.support.cluster.follower import Follower
from tests.support.cluster.local_cluster import scheduler_config
from tests.support.cluster.served import Served

Object = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
#: A gate that no test removes.
KEPT_GATE = "keep/gate"
CONTAINER = {"name": "main", "image": "main:1"}


@dataclass
class OrderingServer(Served):
    """One server."""

    @property
    def ordering(self) -> OrderingService:
        assert self.process.ordering is not None
        return self.process.ordering

    @property
    def decides(self) -> bool:
        return self.ordering.runtime.places

    def validate(self) -> None:
        self.ordering.runtime.look(lambda engine, _: engine.validate())
        assert self.ordering.liveness().ready, self.ordering.liveness().detail

    def metric(self, name: str) -> float:
        """The sum of a metric."""
        found = [each for each in self.ordering.metrics() if each.name == name]
        assert found, name
        return sum(value for each in found for _, value in each.samples)


class OrderingWorld:
    """What a test does and sees. `scheduler`: kube-scheduler's stand-in; None: the API server binds pods by itself."""

    def __init__(self, cluster: EmbeddedCluster, settings: Mapping[str, Any], *, extends: bool) -> None:
        self.cluster = cluster
        self.api = Api(cluster.url)
        self.servers: list[OrderingServer] = []
        self.scheduler: KubeSchedulerStandIn | None = None
        self.timing = QUICK
        self.witness = GateWitness(cluster.url)
        #: Where servers find the API server; a test may put a proxy in between.
        self.url = cluster.url
        self._settings = settings
        self._extends = extends

    # -- the cluster ----------------------------------------------------------------------------------------------

    def add_nodes(self, *names: str, cpu: str = "64") -> None:
        for name in names:
            amounts = {"cpu": cpu, "memory": "64Gi", "pods": "500"}
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
            self.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})

    def pod(self, name: str, after: str = "", *, gate: bool | None = None, **more: Any) -> None:
        """A pod. `gate`: whether it has Waggle's scheduling gate; None: if it declares dependencies."""
        metadata = {"name": name, **more.pop("metadata", {})}
        if after:
            metadata["annotations"] = {AFTER: after, **metadata.get("annotations", {})}
        gates = [*more.pop("gates", ()), *([GATE] if gate or (gate is None and after) else [])]
        spec = {"containers": [CONTAINER], "terminationGracePeriodSeconds": 0, **more}
        if gates:
            spec["schedulingGates"] = [{"name": each} for each in gates]
        self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def job(self, name: str, *, parallelism: int = 1, annotations: Mapping[str, str] | None = None) -> str:
        """A Job, and its UID. There is no controller of Jobs: `pod_of` makes its pods, `finish` ends it."""
        pod = {"containers": [CONTAINER], "restartPolicy": "Never"}
        made = self.cluster.create(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name, "annotations": dict(annotations or {})},
                "spec": {"parallelism": parallelism, "completions": parallelism, "template": {"spec": pod}},
            }
        )
        uid: str = made["metadata"]["uid"]
        return uid

    def pod_of(self, job: str, uid: str, name: str, **more: Any) -> None:
        """A pod that the Job has made."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
        self.pod(name, metadata={"ownerReferences": [owner]}, **more)

    def finish(self, job: str, condition: str = "Complete") -> None:
        """A Job completes, or fails (`Failed`)."""
        conditions = [{"type": condition, "status": "True", "reason": "BackoffLimitExceeded"}]
        self.cluster.patch("jobs", job, {"status": {"conditions": conditions}}, subresource="status")

    def get(self, name: str) -> Object:
        found = self.cluster.get("pods", name)
        assert found is not None, f"there is no pod {name}"
        return found

    def gates(self, name: str) -> list[str]:
        return [each["name"] for each in self.get(name)["spec"].get("schedulingGates", ())]

    def node_of(self, name: str) -> str:
        found = self.cluster.get("pods", name)
        return found["spec"].get("nodeName", "") if found else ""

    def running(self, *names: str) -> None:
        """Wait until these pods are bound."""
        eventually(lambda: all(map(self.node_of, names)), why=lambda: f"{self.reasons()}")

    def fail(self, name: str) -> None:
        """A pod fails."""
        self.cluster.patch("pods", name, {"status": {"phase": "Failed"}}, subresource="status")

    def unready(self, name: str, *, ready: bool = False) -> None:
        """A pod turns not ready, or ready."""
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        self.cluster.patch("pods", name, {"status": {"conditions": conditions}}, subresource="status")

    def remove_gate(self, name: str) -> None:
        """Somebody else removes all gates of a pod."""
        done = self.api.patch(f"pods/{name}", [{"op": "remove", "path": "/spec/schedulingGates"}], JSON_PATCH)
        assert done.status_code == 200, done.text

    def events(self, name: str) -> dict[str, str]:
        """The Events on a pod: text by reason."""
        found = self.cluster.objects("events")
        return {each["reason"]: each["message"] for each in found if each["involvedObject"]["name"] == name}

    # -- what is said about pods ------------------------------------------------------------------------------------

    def reasons(self) -> dict[str, str]:
        """The codes of the pods that are held back."""
        return {each.name: each.reason.code.value for each in self.server.ordering.views.held()}

    def waits(self, name: str, code: str = "WaitsForDependency") -> None:
        """Wait until a pod is held back for this reason."""
        eventually(lambda: self.reasons().get(name) == code, why=lambda: f"{self.reasons()}")

    # -- the servers ----------------------------------------------------------------------------------------------

    def settings(self, **ordering: Any) -> Settings:
        sections = {name: value for name, value in self._settings.items() if name != "ordering"}
        given = {"enabled": True, "grace_seconds": 0.5, **self._settings.get("ordering", {}), **ordering}
        return Settings.model_validate(
            {
                "server": {"port": 0},
                "extender": {"enabled": self._extends},
                **sections,
                "cluster": {"server": self.url, "compare_seconds": 0, **sections.get("cluster", {})},
                "ordering": given,
            }
        )

    def serve(self, *, wait: bool = True, **ordering: Any) -> OrderingServer:
        """Start a server, and wait until it knows all."""
        settings = self.settings(**ordering)
        process = ServerProcess(settings, timing=self.timing)
        process.start()
        try:
            runtime = process.service.runtime if process.service else None
            app = create_app(runtime, settings, ordering=process.ordering)
            server = OrderingServer(process, serve_in_thread(app, settings))
        except BaseException:
            process.stop()
            raise
        self.servers.append(server)
        if wait:
            eventually(lambda: server.ordering.readiness().ready, why=lambda: server.ordering.readiness().detail)
            if process.service is not None and not settings.leader_election.enabled:
                eventually(lambda: runtime is not None and runtime.readiness().ready)
        return server

    def start_scheduler(self) -> None:
        """A kube-scheduler that calls the first server."""
        api = connect(ClusterSettings(server=self.cluster.url), agent="kube-scheduler")
        self.scheduler = KubeSchedulerStandIn(api, scheduler_config(self.server.handle.url))
        self.scheduler.start()
        assert self.scheduler.wait_synced(30)

    def stop_scheduler(self) -> None:
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler._api.close()
            self.scheduler = None

    @property
    def server(self) -> OrderingServer:
        return self.servers[0]

    def leader(self) -> OrderingServer:
        """Wait for the server that decides."""
        found: OrderingServer = eventually(lambda: next((each for each in self.servers if each.decides), None))
        return found

    def end(self, server: OrderingServer) -> None:
        """Stop a server in order."""
        self.servers.remove(server)
        server.stop()

    def validate(self) -> None:
        for server in self.servers:
            server.validate()
        self.witness.check()


class GateWitness(Follower):
    """Watches all pods: no pod gets a gate, and the gate of others that is to stay does not go.

    `needs`: the pods that must have been ready before the pod of this name lost its gate.
    """

    def __init__(self, url: str) -> None:
        self.needs: dict[str, set[str]] = {}
        self._ready: set[str] = set()
        self._gates: dict[str, set[str]] = {}
        self._faults: list[str] = []
        super().__init__(url, "/api/v1/pods")

    def take(self, obj: Object, *, is_gone: bool) -> None:
        uid = obj["metadata"].get("uid", "")
        gates = {each["name"] for each in obj.get("spec", {}).get("schedulingGates", ())}
        before = self._gates.get(uid, gates)
        if not is_gone and (KEPT_GATE in before - gates or gates - before):
            self._faults.append(f"{obj['metadata']['name']}: gates were {before}, are {gates}")
        self._gates[uid] = gates
        name = obj["metadata"]["name"]
        if any(each["type"] == "Ready" and each["status"] == "True" for each in obj["status"].get("conditions", ())):
            self._ready.add(name)
        if before - gates and (early := self.needs.get(name, set()) - self._ready):
            self._faults.append(f"{name} lost its gate before {sorted(early)} were ready")

    def check(self) -> None:
        """Raises AssertionError if a pod has lost, or got, a gate that it should not."""
        assert not self._faults, self._faults[:5]


@contextmanager
def ordering_world(
    *,
    nodes: int = 2,
    serve: bool = True,
    scheduler: bool = False,
    ordering: Mapping[str, Any] | None = None,
    sections: Mapping[str, Any] | None = None,
    apiserver: Mapping[str, Any] | None = None,
    timing: Timing = QUICK,
) -> Iterator[OrderingWorld]:
    """A cluster with some nodes, and one server.

    `scheduler`: the extender is served, too, and a kube-scheduler calls it. `ordering` are the settings of this
    section, `sections` those of others, and `apiserver` has options of the API server.
    """
    whole = {**(sections or {}), "ordering": dict(ordering or {})}
    options = {"binds": not scheduler, "stop_delay": 0.05, **(apiserver or {})}
    with serve_cluster(**options) as cluster:
        world = OrderingWorld(cluster, whole, extends=scheduler)
        world.timing = timing
        world.add_nodes(*(f"n{number}" for number in range(nodes)))
        try:
            if serve:
                world.serve()
            if serve and scheduler:
                world.start_scheduler()
            yield world
            world.validate()
        finally:
            world.stop_scheduler()
            for server in world.servers:
                server.stop()
            world.witness.stop()
            world.api.close()


def definition(group: str, version: str, plural: str, kind: str) -> Object:
    """A CustomResourceDefinition that accepts everything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": versions},
    }
