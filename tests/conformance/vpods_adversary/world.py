"""A drawn world: an API server, one or two sets, and one to three servers of vpods; and what one can do to them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx

from extender.embedded.apiserver import serve_in_thread
from tests.conformance.vpods_adversary.history import History, Object
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.proxy import Proxy
from tests.support.cluster.definitions import definition
from tests.support.cluster.processes import ELECTION, Replica

GROUP = "/apis/waggle.dev/v1alpha1/namespaces"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
CLOSED = "eventing.knative.dev/unschedulable"
NODES = 5
#: Seconds that a set waits before it shrinks, and that a pod may be away.
CALM, AWAY = 1, 2


@dataclass(frozen=True)
class SetDraw:
    """One set, over the StatefulSet of the same name. `is_object`: it is a VPodSet, else it is configured."""

    name: str
    replicas: int
    capacity: int
    policy: str
    autoscale: bool
    least: int
    most: int
    max_moves: int
    up_step: int
    down_step: int
    zones: bool
    is_object: bool
    #: Seconds that a vreplica that moves is on both pods, and that a part is kept.
    overlap: int = 0
    partial: int | None = None

    @classmethod
    def of(cls, rng: Random, name: str) -> SetDraw:
        least = rng.choice((0, 0, 1, 2))
        most = least + rng.randint(2, 6)
        return cls(
            name=name,
            replicas=rng.randint(least, min(most, 4)),
            capacity=rng.choice((1, 3, 5, 10)),
            policy=rng.choice(("balanced", "balanced", "balanced", "head")),
            autoscale=rng.random() < 0.75,
            least=least,
            most=most,
            max_moves=rng.choice((1, 2, 16)),
            up_step=rng.choice((0, 0, 1)),
            down_step=rng.choice((0, 0, 1)),
            zones=rng.random() < 0.7,
            is_object=rng.random() < 0.5,
            overlap=rng.choice((0, 0, 0, 1)),
            partial=rng.choice((None, None, None, 2)),
        )

    def fields(self) -> Object:
        """As in the configuration."""
        fields = {
            "name": self.name,
            "stateful_set": self.name,
            "capacity": self.capacity,
            "policy": self.policy,
            "autoscale": self.autoscale,
            "min_replicas": self.least,
            "max_replicas": self.most,
            "max_moves": self.max_moves,
            "scale_up_step": self.up_step,
            "scale_down_step": self.down_step,
            "scale_down_seconds": CALM,
            "unready_seconds": AWAY,
            "zones": self.zones,
            "overlap_seconds": self.overlap,
        }
        return fields if self.partial is None else {**fields, "partial_seconds": self.partial}

    def body(self) -> Object:
        """As a VPodSet."""
        spec = {_camel(name): value for name, value in self.fields().items() if name != "name"}
        return _object("VPodSet", self.name, spec)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "waggle.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True)
class Draw:
    """What a seed makes of the world."""

    sets: tuple[SetDraw, ...]
    zones: int
    servers: int

    @classmethod
    def of(cls, seed: int) -> Draw:
        rng = Random(seed)
        names = ("fleet", "side")[: rng.choice((1, 1, 2))]
        return cls(
            sets=tuple(SetDraw.of(rng, name) for name in names),
            zones=rng.choice((1, 2, 3)),
            servers=rng.choice((1, 2, 2, 3)),
        )

    def sections(self) -> Object:
        sets = [each.fields() for each in self.sets if not each.is_object]
        return {
            "extender": {"enabled": False},
            "vpods": {"enabled": True, "custom_resources": True, "sets": sets},
            "cluster": {"request_timeout_seconds": 1},
            "leader_election": ELECTION,
        }


class World:
    """`with world(draw) as w:` makes one."""

    def __init__(self, draw: Draw, stack: ExitStack) -> None:
        self.draw = draw
        self.cluster = stack.enter_context(serve_in_thread(seed=None, binds=True, stop_delay=0.05))
        self.api = Api(self.cluster.url)
        stack.callback(self.api.close)
        self.history = History(self.cluster)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._fill()
        self.proxies = [Proxy(self.cluster.url) for _ in range(draw.servers)]
        for proxy in self.proxies:
            stack.callback(proxy.stop)
        self.replicas = [
            Replica(f"waggle-{number}", proxy.url, folder, draw.sections()) for number, proxy in enumerate(self.proxies)
        ]
        self.folder = folder
        #: Linux ends a process with the thread that started it, so this one lives as long as the world.
        self._starter = stack.enter_context(ThreadPoolExecutor(max_workers=1))
        for replica in self.replicas:
            stack.callback(replica.stop)
            self.start(replica)
        self.await_ready()
        eventually(lambda: self._reason("misfit-set"), seconds=60, why=self.words)

    def _reason(self, vpod: str) -> str:
        """A server leads if this is not empty."""
        return str((self.history.now("vpods")[f"default/{vpod}"].get("status") or {}).get("reason", ""))

    # -- the cluster --------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        for kind in ("vpods", "vpodsets"):
            self.cluster.create(definition(kind))
        for number in range(NODES):
            labels = {"topology.kubernetes.io/zone": f"z{number % self.draw.zones}"}
            status = {"allocatable": {"pods": "1000"}, "conditions": [{"type": "Ready", "status": "True"}]}
            self._made(
                self.api.post("/api/v1/nodes", {"metadata": {"name": f"n{number}", "labels": labels}, "status": status})
            )
        for each in self.draw.sets:
            self.deploy(each.name, each.replicas)
            if each.is_object:
                self._made(self.api.post(f"{GROUP}/default/vpodsets", each.body()))
        self._add_misfits()

    def _add_misfits(self) -> None:
        """Sets that cannot be served, and vpods that have none: none of them stops anything."""
        first = self.draw.sets[0]
        missing = {"statefulSet": "nowhere", "capacity": 3}
        self._made(self.api.post(f"{GROUP}/default/vpodsets", _object("VPodSet", "missing", missing)))
        twin = {"statefulSet": first.name, "capacity": first.capacity}
        self._made(self.api.post(f"{GROUP}/default/vpodsets", _object("VPodSet", "zz-twin", twin)))
        self.create("misfit-set", {"set": "no-such-set", "vreplicas": 3})
        self.create("misfit-missing", {"set": "missing", "vreplicas": 3})
        self.create("misfit-twin", {"set": "zz-twin", "vreplicas": 3})
        self.create("misfit-namespace", {"set": f"default/{first.name}", "vreplicas": 3}, "other")

    def _made(self, answer: httpx.Response) -> httpx.Response:
        assert answer.status_code == 201, answer.text
        return self.note(answer)

    def note(self, answer: httpx.Response) -> httpx.Response:
        """Remember that this write was the adversary's."""
        if answer.status_code in (200, 201):
            version = answer.json().get("metadata", {}).get("resourceVersion", "")
            if version:
                self.history.own.add(int(version))
        return answer

    def deploy(self, name: str, replicas: int) -> None:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "host:1"}]}}
        spec = {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": template,
        }
        self._made(self.api.post(STATEFUL_SETS, {"metadata": {"name": name}, "spec": spec}))

    def scale(self, name: str, replicas: int) -> httpx.Response:
        return self.note(self.api.patch(f"{STATEFUL_SETS}/{name}/scale", {"spec": {"replicas": replicas}}))

    def create(self, name: str, spec: Object, namespace: str = "default") -> httpx.Response:
        return self.note(self.api.post(f"{GROUP}/{namespace}/vpods", _object("VPod", name, spec)))

    def change(self, name: str, body: Object, part: str = "") -> httpx.Response:
        path = f"{GROUP}/default/vpods/{name}" + (f"/{part}" if part else "")
        return self.note(self.api.patch(path, body))

    def delete(self, name: str) -> httpx.Response:
        return self.api.delete(f"{GROUP}/default/vpods/{name}")

    def cordon(self, node: str, *, is_cordoned: bool) -> None:
        self.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": is_cordoned or None}})

    def set_ready(self, pod: Object, *, ready: bool) -> None:
        conditions = [
            {**each, "status": str(ready)} if each["type"] in ("Ready", "ContainersReady") else each
            for each in pod.get("status", {}).get("conditions", ())
        ]
        self.api.patch(f"pods/{pod['metadata']['name']}/status", {"status": {"conditions": conditions}})

    def close(self, name: str, *, is_closed: bool) -> None:
        self.api.patch(f"pods/{name}", {"metadata": {"annotations": {CLOSED: "true" if is_closed else None}}})

    def heal(self) -> None:
        """All pods and nodes are well, and the API server does all as it should."""
        self.cluster.faults.clear()
        for proxy in self.proxies:
            proxy.resume()
        for number in range(NODES):
            self.cordon(f"n{number}", is_cordoned=False)
        self.heal_pods()

    def heal_pods(self) -> None:
        for pod in self.history.now("pods").values():
            conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
            if "deletionTimestamp" not in pod["metadata"]:
                if conditions.get("Ready") == "False":
                    self.set_ready(pod, ready=True)
                if (pod["metadata"].get("annotations") or {}).get(CLOSED):
                    self.close(pod["metadata"]["name"], is_closed=False)

    # -- the servers --------------------------------------------------------------------------------------------------

    def start(self, replica: Replica) -> None:
        self._starter.submit(replica.start).result()

    def restart(self, replica: Replica, *, kill: bool) -> None:
        replica.kill() if kill else replica.stop()
        self.start(replica)

    def await_ready(self) -> None:
        eventually(lambda: all(map(self.is_ready, self.replicas)), seconds=60, why=self.words)

    @staticmethod
    def is_ready(replica: Replica) -> bool:
        try:
            return httpx.get(f"{replica.url}/readyz/vpods", timeout=10).status_code == 200
        except httpx.TransportError:
            return False

    def words(self) -> str:
        return "\n".join(f"{log.name}:\n{log.read_text()[-2500:]}" for log in sorted(self.folder.glob("*.log")))


@contextmanager
def world(draw: Draw) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(draw, stack)
