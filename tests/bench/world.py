"""The cluster that is measured on, and the requests: all made from what a real kube-scheduler sent (tests/fixtures).

The nodes are four fifths full. A pod of kind "placed" fits on many of them; one of kind "refused" fits nowhere, since
it wants as many GPUs as a whole node has. Everything is the same in every run.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import msgspec

from tests.support.http.fixed_runtime import capture

NAMESPACE = "default"
GPU = "example.com/gpu"
GPUS = 8
#: What the pods on one node take together, in cpus and GPUs, of 32 and 8. No node has all its GPUs free.
_ON_A_NODE = (((4, 1), (6, 2), (7, 1), (8, 2)), ((8, 2), (8, 2), (6, 2), (8, 2)), ((4, 1), (6, 1), (6, 2), (8, 2)))


@dataclass(frozen=True)
class Scale:
    """How large, and how long. `names` are the numbers of NodeNames offered, `items` of full Nodes."""

    nodes: int
    names: tuple[int, ...]
    items: int
    #: Each round measures each kind of call so often.
    calls: int
    rounds: int
    rounds_beside_load: int
    #: Of each of the runs that count decisions.
    decisions: int
    repeats: int


FULL = Scale(
    nodes=5000,
    names=(100, 1000, 5000),
    items=1000,
    calls=30,
    rounds=7,
    rounds_beside_load=14,
    decisions=600,
    repeats=5,
)
QUICK = Scale(nodes=200, names=(50, 200), items=50, calls=3, rounds=2, rounds_beside_load=2, decisions=40, repeats=1)


@dataclass(frozen=True)
class IoScale:
    """The same for the I/O layers. The aims are those of the full scale, and said only there (`aimed`)."""

    cluster: Scale
    #: Pods of 7 KB in the cluster that is started with, and in the one that is listed anew.
    pods: int
    relisted: int
    #: Watch events, binds, and objects of the API server stand-in, in each of `rounds` rounds.
    events: int
    binds: int
    created: int
    rounds: int
    #: Rounds of /filter quiet and beside something, and the most calls in each.
    relists: int
    filters: int
    aimed: bool


IO_FULL = IoScale(
    cluster=FULL,
    pods=50_000,
    relisted=10_000,
    events=2500,
    binds=500,
    created=500,
    rounds=3,
    relists=5,
    filters=300,
    aimed=True,
)
IO_QUICK = IoScale(
    cluster=QUICK,
    pods=400,
    relisted=400,
    events=40,
    binds=20,
    created=20,
    rounds=1,
    relists=1,
    filters=10,
    aimed=False,
)


def node_name(number: int) -> str:
    return f"node-{number:05d}"


@cache
def uid_of(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


@cache
def _captured() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(capture("filter-nodes"))
    return found


def node(number: int, version: int) -> dict[str, Any]:
    """The captured node, larger."""
    like = _captured()["Nodes"]["items"][0]
    name = node_name(number)
    room = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "100Gi", GPU: str(GPUS), "pods": "110"}
    metadata = {**like["metadata"], "name": name, "uid": uid_of(name), "resourceVersion": str(version)}
    metadata["labels"] = {**metadata["labels"], "kubernetes.io/hostname": name}
    status = {**like["status"], "capacity": room, "allocatable": room}
    return {"metadata": metadata, "spec": like["spec"], "status": status}


def pod(name: str, version: int, *, cpu: int = 2, gpus: int = 1, on: str = "") -> dict[str, Any]:
    """The captured pod under another name, waiting or running on a node."""
    like = _captured()["Pod"]
    requests = {"cpu": str(cpu), "memory": "64Mi", GPU: str(gpus)}
    container = {**like["spec"]["containers"][0], "resources": {"limits": {GPU: str(gpus)}, "requests": requests}}
    spec = {**like["spec"], "containers": [container], **({"nodeName": on} if on else {})}
    metadata = {**like["metadata"], "name": name, "uid": uid_of(name), "resourceVersion": str(version)}
    status = {**like["status"], "phase": "Running" if on else "Pending"}
    return {"metadata": metadata, "spec": spec, "status": status}


def running(number: int, version: int) -> list[dict[str, Any]]:
    """The pods that run on a node from the start."""
    name = node_name(number)
    sizes = _ON_A_NODE[number % len(_ON_A_NODE)]
    return [
        pod(f"running-{number}-{index}", version, cpu=cpu, gpus=gpus, on=name)
        for index, (cpu, gpus) in enumerate(sizes)
    ]


def waiting(name: str, version: int = 1) -> dict[str, Any]:
    """The pod of that name, as the API server and kube-scheduler show it; the name's first word says its kind."""
    if name.startswith("refused"):
        return pod(name, version, cpu=8 + int(name.rpartition("-")[2]) % 3, gpus=GPUS)
    return pod(name, version)


class Requests:
    """Bodies of /filter that offer the same nodes, each time in another order, as kube-scheduler rotates them."""

    def __init__(self, scale: Scale, count: int, *, items: bool = False) -> None:
        rng = random.Random(count)
        self.count, self.items = count, items
        self._next = 0
        numbers = rng.sample(range(scale.nodes), count)
        self._offers = []
        for turn in range(2 if items else 8):
            start = turn * count // 8
            self._offers.append(_offer(numbers[start:] + numbers[:start], items=items))

    def body(self, name: str) -> bytes:
        self._next = (self._next + 1) % len(self._offers)
        return b'{"Pod":%s,%s}' % (msgspec.json.encode(waiting(name)), self._offers[self._next])


def _offer(numbers: list[int], *, items: bool) -> bytes:
    if items:
        nodes = msgspec.json.encode({"metadata": {}, "items": [node(number, 1) for number in numbers]})
        return b'"Nodes":%s,"NodeNames":null' % nodes
    return b'"Nodes":null,"NodeNames":%s' % msgspec.json.encode([node_name(number) for number in numbers])


def binding(name: str, on: str) -> bytes:
    """The body of /bind."""
    return msgspec.json.encode({"PodName": name, "PodNamespace": NAMESPACE, "PodUID": uid_of(name), "Node": on})
