"""Vpods in one process: an API server with its StatefulSet controller, and servers of vpods on sockets of their own.

    with vpod_world(replicas=3) as w:
        w.add_vpod("a", 5)
        w.placed("a", 5)

At its end the engines' invariants hold. A witness watches the API server the whole time: at no moment may a pod hold
more vreplicas than its capacity.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from extender.embedded.apiserver import EmbeddedCluster
from extender.embedded.apiserver import serve_in_thread as serve_cluster
from extender.kube.informers.reflector import Timing
from extender.server.process import ServerProcess
from extender.server.vpods.service import VPodService
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.api import Api, eventually
from tests.support.cluster.claim_world import QUICK
from tests.support.cluster.definitions import definition
from tests.support.cluster.served import Served
from tests.support.cluster.vpod_witness import PlacementWitness

HEAD = {"apiVersion": "waggle.dev/v1alpha1"}
VPODS = "/apis/waggle.dev/v1alpha1/namespaces/default/vpods"
SETS = "/apis/waggle.dev/v1alpha1/namespaces/default/vpodsets"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
Object = dict[str, Any]


@dataclass
class VPodServer(Served):
    """One server of vpods."""

    @property
    def vpods(self) -> VPodService:
        assert self.process.vpods is not None
        return self.process.vpods

    @property
    def places(self) -> bool:
        """Whether it leads, and decides."""
        return self.vpods.runtime.places

    def validate(self) -> None:
        self.vpods.runtime.look(lambda engine, _: engine.validate())
        assert self.vpods.liveness().ready, self.vpods.liveness().detail


class VPodWorld:
    """What a test does and sees. The set is `default/fleet`, over the StatefulSet `fleet`."""

    def __init__(self, cluster: EmbeddedCluster, settings: Mapping[str, Any], capacity: int) -> None:
        self.cluster = cluster
        self.api = Api(cluster.url)
        self.servers: list[VPodServer] = []
        self.timing = QUICK
        self.capacity = capacity
        self._settings = settings
        #: Where servers find the API server; a test may put a proxy in between.
        self.url = cluster.url
        self.witness: PlacementWitness | None = None

    # -- the cluster ----------------------------------------------------------------------------------------------

    def add_nodes(self, *names: str, zones: int = 1) -> None:
        """Nodes, in turns in so many zones."""
        for number, name in enumerate(names):
            labels = {"topology.kubernetes.io/zone": f"z{number % zones}"}
            status = {"allocatable": {"pods": "1000"}, "conditions": [{"type": "Ready", "status": "True"}]}
            made = self.api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
            assert made.status_code == 201, made.text

    def deploy(self, name: str, replicas: int, **spec: Any) -> None:
        """A StatefulSet whose pods start together."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "host:1"}]}}
        whole = {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        }
        made = self.api.post(STATEFUL_SETS, {"metadata": {"name": name}, "spec": whole})
        assert made.status_code == 201, made.text

    def replicas(self, name: str = "fleet") -> int:
        """What the StatefulSet says how many pods there should be."""
        found: int = self.api.get(f"{STATEFUL_SETS}/{name}").json()["spec"]["replicas"]
        return found

    def scale(self, replicas: int, name: str = "fleet") -> None:
        """Somebody else scales the StatefulSet, as `kubectl scale` does."""
        done = self.api.patch(f"{STATEFUL_SETS}/{name}/scale", {"spec": {"replicas": replicas}})
        assert done.status_code == 200, done.text

    def cordon(self, node: str, *, on: bool = True) -> None:
        done = self.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})
        assert done.status_code == 200, done.text

    def hosts(self, name: str = "fleet") -> dict[str, str]:
        """The node of each pod of a StatefulSet."""
        pods = self.api.get("pods", labelSelector=f"app={name}").json()["items"]
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in pods}

    # -- vpods ----------------------------------------------------------------------------------------------------

    def add_vpod(self, name: str, vreplicas: Any, namespace: str = "default", **spec: Any) -> None:
        whole = {"set": "fleet", "vreplicas": vreplicas, **spec}
        body = {**HEAD, "kind": "VPod", "metadata": {"name": name}, "spec": whole}
        made = self.api.post(VPODS.replace("default", namespace), body)
        assert made.status_code == 201, made.text

    def want(self, name: str, vreplicas: int) -> None:
        """`kubectl scale vpod`."""
        done = self.api.patch(f"{VPODS}/{name}/scale", {"spec": {"replicas": vreplicas}})
        assert done.status_code == 200, done.text

    def vpod(self, name: str, namespace: str = "default") -> Object:
        found: Object = self.api.get(f"{VPODS.replace('default', namespace)}/{name}").json()
        return found

    def placements(self, name: str, namespace: str = "default") -> dict[str, int]:
        status = self.vpod(name, namespace).get("status", {})
        return {each["podName"]: each["vreplicas"] for each in status.get("placements", ())}

    def held(self) -> Counter[str]:
        """How many vreplicas each pod hosts."""
        found: Counter[str] = Counter()
        for each in self.api.get(VPODS).json()["items"]:
            for placement in each.get("status", {}).get("placements", ()):
                found[placement["podName"]] += placement["vreplicas"]
        return found

    def reason(self, name: str, namespace: str = "default") -> str:
        found: str = self.vpod(name, namespace).get("status", {}).get("reason", "")
        return found

    def placed(self, name: str, number: int, seconds: float = 30) -> dict[str, int]:
        """Wait until a vpod has so many vreplicas on pods. Return where."""
        eventually(
            lambda: sum(self.placements(name).values()) == number,
            seconds=seconds,
            why=lambda: f"{name}: {self.vpod(name).get('status')}",
        )
        return self.placements(name)

    def versions(self) -> dict[str, str]:
        """The resourceVersions of all vpods and StatefulSets: they change with every write."""
        found = {}
        for path in (VPODS, STATEFUL_SETS):
            for each in self.api.get(path).json()["items"]:
                found[f"{path}/{each['metadata']['name']}"] = each["metadata"]["resourceVersion"]
        return found

    def resting(self) -> None:
        """Wait until vpods and StatefulSets are not written any more."""
        deadline = time.monotonic() + 60
        before: dict[str, str] | None = None
        while before != (before := self.versions()):
            assert time.monotonic() < deadline, "they never come to rest"
            time.sleep(0.3)

    # -- the servers ----------------------------------------------------------------------------------------------

    def settings(self, port: int = 0, **vpods: Any) -> Settings:
        sections = {name: value for name, value in self._settings.items() if name not in ("vpods", "set")}
        fleet = {
            "name": "fleet",
            "stateful_set": "fleet",
            "capacity": self.capacity,
            "scale_down_seconds": 0.3,
            "unready_seconds": 2,
            **self._settings.get("set", {}),
        }
        given = {**self._settings.get("vpods", {}), **vpods}
        section = {"enabled": True, "custom_resources": True, "sets": [fleet], **given}
        return Settings.model_validate(
            {
                "server": {"port": port},
                "extender": {"enabled": False},
                **sections,
                "cluster": {"server": self.url, **sections.get("cluster", {})},
                "vpods": section,
            }
        )

    def serve(self, port: int = 0, *, wait: bool = True, **vpods: Any) -> VPodServer:
        """Start a server, and wait until it knows all. `port` 0: any."""
        settings = self.settings(port, **vpods)
        process = ServerProcess(settings, timing=self.timing)
        process.start()
        try:
            runtime = process.service.runtime if process.service else None
            app = create_app(runtime, settings, claims=process.claims, vpods=process.vpods)
            server = VPodServer(process, serve_in_thread(app, settings))
        except BaseException:
            process.stop()
            raise
        self.servers.append(server)
        if wait:
            eventually(lambda: server.vpods.readiness().ready, why=lambda: server.vpods.readiness().detail)
        return server

    @property
    def server(self) -> VPodServer:
        return self.servers[0]

    def leader(self) -> VPodServer:
        """Wait for the server that decides."""
        found: VPodServer = eventually(lambda: next((each for each in self.servers if each.places), None))
        return found

    def end(self, server: VPodServer) -> None:
        """Stop a server in order."""
        self.servers.remove(server)
        server.stop()

    def validate(self) -> None:
        for server in self.servers:
            server.validate()
        if self.witness is not None:
            self.witness.check()


@contextmanager
def vpod_world(
    *,
    replicas: int = 3,
    nodes: int = 3,
    zones: int = 1,
    capacity: int = 10,
    serve: bool = True,
    sections: Mapping[str, Any] | None = None,
    apiserver: Mapping[str, Any] | None = None,
    timing: Timing = QUICK,
    prepare: Callable[[VPodWorld], None] = lambda _: None,
    is_witnessed: bool = True,
    vpods: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Iterator[VPodWorld]:
    """A cluster with the set `default/fleet` of so many pods, and one server.

    `settings` are those of the set; `vpods` those of the section; `apiserver` has options of the API server; `prepare`
    is called before the first server starts.
    """
    whole = {**(sections or {}), "vpods": dict(vpods or {}), "set": settings}
    with serve_cluster(**{"binds": True, "stop_delay": 0.05, **(apiserver or {})}) as cluster:
        world = VPodWorld(cluster, whole, capacity)
        world.timing = timing
        define(world)
        world.add_nodes(*(f"n{number}" for number in range(nodes)), zones=zones)
        world.deploy("fleet", replicas)
        eventually(lambda: len([node for node in world.hosts().values() if node]) == replicas)
        prepare(world)
        if is_witnessed:
            world.witness = PlacementWitness(cluster.url, capacity)
        try:
            if serve:
                world.serve()
            yield world
            world.validate()
        finally:
            for server in world.servers:
                server.stop()
            if world.witness is not None:
                world.witness.stop()
            world.api.close()


def define(w: VPodWorld) -> None:
    """What `kubectl apply -k manifests/crds` does."""
    for name in ("vpods", "vpodsets"):
        w.cluster.create(definition(name))


def add_set(w: VPodWorld, name: str = "fleet", **spec: Any) -> None:
    """A VPodSet object, over the StatefulSet of its name."""
    whole = {"statefulSet": name, "capacity": w.capacity, "scaleDownSeconds": 0, "unreadySeconds": 2, **spec}
    made = w.api.post(SETS, {**HEAD, "kind": "VPodSet", "metadata": {"name": name}, "spec": whole})
    assert made.status_code == 201, made.text


def set_status(w: VPodWorld, name: str = "fleet") -> Object:
    found: Object = w.api.get(f"{SETS}/{name}").json().get("status", {})
    return found


def condition(of: Mapping[str, Any], type_: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty texts if there is none."""
    found = next((each for each in of.get("conditions", ()) if each["type"] == type_), {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")
