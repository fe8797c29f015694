"""The public harness (`algorithm.conformance`) around a packing algorithm, and short ways to make its records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from algorithm.conformance.harness import AlgorithmHarness
from algorithm.interface import Phase
from algorithm.model import Node, Pod, pairs
from algorithm.packing import PackingAlgorithm, PackingSettings
from algorithm.packing.nodes import NodeRoom

GPU = "example.com/gpu"
FILTERING, PREEMPTING = Phase.FILTERING, Phase.PREEMPTING


def node(name: str, *, cpu: int = 8000, memory: int = 64, gpu: int = 0, pods: int = 110, **more: object) -> Node:
    amounts = {"cpu": cpu, "memory": memory, "pods": pods} | ({GPU: gpu} if gpu else {})
    return Node(name=name, uid=f"uid-{name}", allocatable=tuple(sorted(amounts.items())), **more)


def pod(name: str, *, cpu: int = 0, memory: int = 0, gpu: int = 0, uid: str = "", **more: object) -> Pod:
    amounts = {"cpu": cpu, "memory": memory, GPU: gpu}
    requests = tuple(sorted((key, amount) for key, amount in amounts.items() if amount))
    return Pod(namespace="ns", name=name, uid=uid or f"u-{name}", requests=requests, **more)


def member(name: str, gang: str, minimum: int | str, **more: object) -> Pod:
    declared = pairs({"waggle.dev/gang": gang, "waggle.dev/gang-min": str(minimum)})
    return pod(name, annotations=declared, **more)


def shown(algorithm: PackingAlgorithm) -> dict[str, Any]:
    """All that the algorithm knows, in full: `inspect` is a summary."""
    state = algorithm._state
    return {
        **algorithm.inspect(),
        "nodes": {name: _shown_node(room) for name, room in state.cluster.rooms.items()},
        "gangs": {
            str(key): {
                "minimum": gang.minimum,
                "allocated": {pod.name: pod.node_name for pod in gang.allocated.values()},
                "seats": {gang.waiting[uid].name: node for uid, node in gang.seats().items()},
                "waiting": {pod.name for pod in gang.waiting.values()},
            }
            for key, gang in state.gangs.gangs.items()
        },
    }


def _shown_node(room: NodeRoom) -> dict[str, Any]:
    return {
        "schedulable": room.schedulable,
        "allocatable": dict(room.allocatable),
        "used": room.used(),
        "held": dict(room.held),
        "free": dict(room.free),
        "pods": set(room.pods),
        "heldFor": sorted({hold.holder for hold in room.holds.values()}),
    }


class PackingHarness(AlgorithmHarness[PackingAlgorithm]):
    """The public harness with all that packing knows in view. Every change checks the algorithm's invariants."""

    def __init__(self, *nodes: Node, strategy: str = "pack") -> None:
        self.settings = PackingSettings(strategy=strategy)
        super().__init__(lambda: PackingAlgorithm(self.settings), nodes)

    def check(self) -> None:
        self.algorithm.validate()

    def observe(self) -> object:
        return shown(self.algorithm)

    def bound(self, record: Pod, node_name: str) -> Pod:
        """A pod that is found bound, never asked about."""
        return self.found_bound(msgspec.structs.replace(record, node_name=node_name))

    def expire(self, uid: str, *, without: Iterable[str] = ("waggle.dev/gang-plan",)) -> Pod:
        return super().expire(uid, without=without)

    def restarted(self, seed: int = 0) -> PackingAlgorithm:
        fresh = super().restarted(seed)
        fresh.validate()
        return fresh
