"""A drawn world: an API server, two pools, and one to three servers of claims; and what one can do to them."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from extender.embedded.apiserver import serve_in_thread
from tests.conformance.claims_adversary.callers import Callers
from tests.conformance.claims_adversary.ledger import PHASE, Ledger, PodRecord
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.proxy import Proxy
from tests.support.cluster.claim_world import ClaimWorld, Server
from tests.support.cluster.definitions import definition
from tests.support.cluster.processes import Replica

Object = dict[str, Any]
POOLS = ("red", "blue")
FLAVOURS = {"a": "n1", "b": "n2"}
OBJECTS = "/apis/waggle.dev/v1alpha1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@dataclass(frozen=True)
class Draw:
    """What a seed makes of the world. `weights`, `max_pending` and so on are as in the configuration."""

    modes: Mapping[str, str]
    orders: Mapping[str, str]
    caps: Mapping[str, int]
    weights: Mapping[str, int]
    sizes: Mapping[str, Mapping[str, int]]
    servers: int
    share: bool
    #: Names of pools that are objects.
    objects: frozenset[str]
    processes: bool

    @classmethod
    def of(cls, seed: int, *, processes: bool, calm: bool = False) -> Draw:
        rng = Random(seed)
        servers = 1 if calm else rng.choice((1, 1, 2, 3))
        as_objects = frozenset(pool for pool in POOLS if rng.random() < 0.3)
        return cls(
            modes={pool: rng.choice(("detach", "recycle")) for pool in POOLS},
            orders={pool: rng.choice(("fifo", "oldest", "newest", "pack", "spread")) for pool in POOLS},
            caps={pool: rng.choice((0, 0, 3, 6)) for pool in POOLS},
            weights={"t1": rng.choice((1, 2, 3)), "t2": 1},
            sizes={pool: {flavour: rng.randint(1, 4) for flavour in FLAVOURS} for pool in POOLS},
            servers=servers,
            share=rng.random() < 0.5,
            objects=as_objects,
            processes=processes,
        )

    def pool(self, name: str) -> Object:
        """The pool as it stands in the configuration."""
        return {
            "name": name,
            "selector": {"pool": name},
            "mode": self.modes[name],
            "order": self.orders[name],
            "max_pods_per_tenant": self.caps[name],
            "weights": dict(self.weights),
            "workload": {"kind": "Deployment", "name": f"{name}-a"},
            "start_seconds": 10,
        }

    def pool_object(self, name: str) -> Object:
        spec = {
            "selector": {"matchLabels": {"pool": name}},
            "mode": self.modes[name],
            "order": self.orders[name],
            "weights": dict(self.weights),
            "startSeconds": 10,
        }
        if self.caps[name]:
            spec["limits"] = {"maxPodsPerTenant": self.caps[name]}
        return {
            "apiVersion": "waggle.dev/v1alpha1",
            "kind": "Pool",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }

    def sections(self) -> Object:
        """Waggle's configuration, without the API server's address and the port."""
        claims: Object = {
            "enabled": True,
            "pools": [self.pool(name) for name in POOLS if name not in self.objects],
            "custom_resources": True,
            "share_pools": self.share,
        }
        cluster = {"request_timeout_seconds": 1}
        return {"extender": {"enabled": False}, "claims": claims, "cluster": cluster}


@dataclass
class Instance:
    """One server of claims. `downs` are the times in which it was killed or stopped, by the monotonic clock."""

    number: int
    proxy: Proxy
    url: str = ""
    thread: Server | None = None
    replica: Replica | None = None
    downs: list[list[float]] = field(default_factory=list)
    #: One change at a time.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def was_down(self, since: float, until: float) -> bool:
        return any(begin <= until and end >= since for begin, end in self.downs)


class World:
    """`with world(draw) as w:` makes one."""

    def __init__(self, draw: Draw, stack: ExitStack) -> None:
        self.draw = draw
        self.cluster = stack.enter_context(serve_in_thread(seed=None))
        self.api = Api(self.cluster.url)
        stack.callback(self.api.close)
        self.ledger = Ledger(self.cluster, draw.modes)
        if draw.servers == 1:
            self.ledger.caps = dict(draw.caps)
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.instances = [Instance(number, Proxy(self.cluster.url)) for number in range(draw.servers)]
        for instance in self.instances:
            stack.callback(instance.proxy.stop)
        #: UIDs of pods that a step did something to that can end a claim, and pools whose workloads were changed.
        self.touched: set[str] = set()
        self.shaken: set[str] = set()
        #: Whether an injected fault refuses writes for good (403).
        self.refuses = False
        self.stack = stack
        #: Linux ends a process with the thread that started it, so this one lives as long as the world.
        self._starter = stack.enter_context(ThreadPoolExecutor(max_workers=1))
        self._fill()
        for instance in self.instances:
            self.start(instance)
        self.callers = Callers([instance.url for instance in self.instances])
        stack.callback(self.callers.close)

    # -- the cluster ------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        for name in sorted({*FLAVOURS.values(), "n3"}):
            status = {"allocatable": {"pods": "1000"}, "conditions": [{"type": "Ready", "status": "True"}]}
            self.api.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        for kind in ("pools", "claims"):
            self.cluster.create(definition(kind))
        for pool in POOLS:
            for flavour, node in FLAVOURS.items():
                self._deploy(pool, flavour, node)
            if pool in self.draw.objects:
                made = self.api.post(f"{OBJECTS}/pools", self.draw.pool_object(pool))
                assert made.status_code == 201, made.text
        wanted = sum(sum(sizes.values()) for sizes in self.draw.sizes.values())
        eventually(lambda: sum(len(self.ledger.claimable(pool)) for pool in POOLS) == wanted)

    def _deploy(self, pool: str, flavour: str, node: str) -> None:
        mine = {"pool": pool, "flavour": flavour}
        labels = {**mine, **({PHASE: "idle"} if self.draw.modes[pool] == "recycle" else {})}
        template = {
            "metadata": {"labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "warm:1"}]},
        }
        spec = {
            "replicas": self.draw.sizes[pool][flavour],
            "selector": {"matchLabels": mine},
            "template": template,
        }
        made = self.api.post(DEPLOYMENTS, {"metadata": {"name": f"{pool}-{flavour}"}, "spec": spec})
        assert made.status_code == 201, made.text

    def pod(self, rng: Random, *, claimed: bool) -> PodRecord | None:
        """Some pod that is there."""
        with self.ledger.lock:
            pods = [
                pod
                for pod in self.ledger.pods.values()
                if not pod.is_gone and not pod.is_terminating and (pod.current is not None) == claimed
            ]
        return rng.choice(sorted(pods, key=lambda pod: pod.name)) if pods else None

    def set_ready(self, pod: PodRecord, *, ready: bool) -> None:
        status = pod.now.get("status", {})
        conditions = [
            {**each, "status": str(ready)} if each["type"] in ("Ready", "ContainersReady") else each
            for each in status.get("conditions", ())
        ]
        self.api.patch(f"pods/{pod.name}/status", {"status": {"conditions": conditions}})

    def cordon(self, node: str, *, is_cordoned: bool) -> None:
        self.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": is_cordoned or None}})

    def scale(self, pool: str, flavour: str, replicas: int) -> None:
        self.shaken.add(pool)
        self.api.patch(f"{DEPLOYMENTS}/{pool}-{flavour}", {"spec": {"replicas": replicas}})

    # -- the servers ------------------------------------------------------------------------------------------------

    def start(self, instance: Instance) -> None:
        """Start it, at the port that it had, and wait until it is ready."""
        sections = self.draw.sections()
        cluster = {"server": instance.proxy.url, **sections["cluster"]}
        if self.draw.processes:
            if instance.replica is None:
                more = {**sections, "cluster": cluster}
                instance.replica = Replica(f"waggle-{instance.number}", instance.proxy.url, self.folder, more)
                instance.url = instance.replica.url
                self.stack.callback(instance.replica.stop)
            self._starter.submit(instance.replica.start).result()
        else:
            world = ClaimWorld.__new__(ClaimWorld)
            ClaimWorld.__init__(world, self.cluster, "detach", {**sections, "cluster": cluster})
            port = int(instance.url.rpartition(":")[2] or 0)
            instance.thread = world.serve(port=port, **sections["claims"])
            world.api.close()
            if not instance.url:
                instance.url = instance.thread.handle.url
                self.stack.callback(lambda: instance.thread and instance.thread.stop())
        eventually(lambda: self.is_ready(instance), why=lambda: self.words(instance))

    def words(self, instance: Instance) -> str:
        log = self.folder / f"waggle-{instance.number}.log"
        return log.read_text()[-3000:] if log.exists() else ""

    def is_ready(self, instance: Instance) -> bool:
        try:
            return self.http_get(instance, "/readyz/claims").status_code == 200
        except OSError:
            return False

    @staticmethod
    def http_get(instance: Instance, path: str) -> httpx.Response:
        try:
            return httpx.get(instance.url + path, timeout=10)
        except httpx.TransportError as error:
            raise OSError(str(error)) from None

    def restart(self, instance: Instance, *, kill: bool, pause: float) -> None:
        """Ends it, orderly or not, and starts it again a moment later."""
        with instance.lock:
            instance.downs.append([time.monotonic(), float("inf")])
            if instance.replica is not None:
                instance.replica.kill() if kill else instance.replica.stop()
            elif instance.thread is not None:
                instance.thread.stop()
                instance.thread = None
            time.sleep(pause)
            self.start(instance)
            instance.downs[-1][1] = time.monotonic()

    # -- what servers say -------------------------------------------------------------------------------------------

    def metrics(self, number: int) -> dict[str, float]:
        """Every sample whose name begins with waggle_claims or waggle_pool, by name with labels."""
        text = self.http_get(self.instances[number], "/metrics").text
        found = re.findall(r"^(waggle_(?:claims|pool)\S*(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}

    def get(self, number: int, path: str) -> Object:
        answer: Object = self.http_get(self.instances[number], path).json()
        return answer


def total(metrics: Mapping[str, float], name: str) -> float:
    return sum(value for key, value in metrics.items() if key.partition("{")[0] == name)


@contextmanager
def world(draw: Draw) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(draw, stack)
