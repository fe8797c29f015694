"""Drives a packing algorithm through the contract, as the extender does, and remembers what it told it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec

from algorithm.interface import Bind, Phase, Preempt, ScheduleResult, SuggestedNodes, Victim
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


class PackingHarness:
    """The algorithm with the records that it was told. Every change checks the algorithm's invariants."""

    def __init__(self, *nodes: Node, strategy: str = "pack") -> None:
        self.settings = PackingSettings(strategy=strategy)
        self.algorithm = PackingAlgorithm(self.settings)
        self.nodes: dict[str, Node] = {}
        self.waiting: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        self.preempting: dict[str, tuple[Victim, ...]] = {}
        for each in nodes:
            self.add_node(each)

    # -- nodes ------------------------------------------------------------------------------------------------

    def add_node(self, record: Node) -> None:
        self.nodes[record.name] = record
        self.algorithm.add_node(record)
        self.algorithm.validate()

    def update_node(self, record: Node) -> None:
        old, self.nodes[record.name] = self.nodes[record.name], record
        self.algorithm.update_node(old, record)
        self.algorithm.validate()

    def delete_node(self, name: str) -> None:
        self.algorithm.delete_node(self.nodes.pop(name))
        self.algorithm.validate()

    # -- pods -------------------------------------------------------------------------------------------------

    def submit(self, *records: Pod) -> None:
        for record in records:
            self.waiting[record.uid] = record
            self.algorithm.add_unallocated_pod(record)
            self.algorithm.validate()

    def bound(self, record: Pod, node_name: str) -> Pod:
        """A pod that is found bound, never asked about."""
        record = msgspec.structs.replace(record, node_name=node_name)
        self.allocated[record.uid] = record
        self.algorithm.add_allocated_pod(record)
        self.algorithm.validate()
        return record

    def ask(self, record: Pod, nodes: Iterable[str] | None = None, phase: Phase = FILTERING) -> ScheduleResult:
        """The answer; asserts that asking leaves no trace, and that a fork, which remembers nothing, says the same."""
        offered = SuggestedNodes(self.nodes if nodes is None else nodes)
        before = shown(self.algorithm)
        answer = self.algorithm.schedule(record, offered, phase)
        assert shown(self.algorithm) == before
        assert self.algorithm.schedule(record, SuggestedNodes(reversed(offered)), phase) == answer
        assert self.algorithm.fork().schedule(record, SuggestedNodes(offered), phase) == answer
        self.algorithm.validate()
        return answer

    def take(self, record: Pod, answer: ScheduleResult) -> Pod:
        """The extender takes a Bind for real."""
        assert isinstance(answer, Bind), answer
        del self.waiting[record.uid]
        self.preempting.pop(record.uid, None)
        annotations = pairs({**dict(record.annotations), **dict(answer.annotations)})
        return self.bound(msgspec.structs.replace(record, annotations=annotations), answer.node)

    def run(self, record: Pod, nodes: Iterable[str] | None = None) -> str:
        """Submits, asks and takes; returns the node."""
        if record.uid not in self.waiting:
            self.submit(record)
        return self.take(record, self.ask(record, nodes)).node_name

    def expire(self, uid: str) -> Pod:
        """A proposal comes to nothing: the pod waits again, without what it was given."""
        gone = self.allocated.pop(uid)
        self.algorithm.delete_allocated_pod(gone)
        kept = {key: value for key, value in gone.annotations if key != "waggle.dev/gang-plan"}
        again = msgspec.structs.replace(gone, node_name="", annotations=pairs(kept))
        self.submit(again)
        return again

    def delete(self, uid: str) -> None:
        if uid in self.preempting:
            self.stop_preempting(uid)
        if uid in self.waiting:
            self.algorithm.delete_unallocated_pod(self.waiting.pop(uid))
        else:
            self.algorithm.delete_allocated_pod(self.allocated.pop(uid))
        self.algorithm.validate()

    def preempt(self, record: Pod, answer: ScheduleResult) -> tuple[str, ...]:
        """The extender takes a Preempt for real; returns the victims' UIDs."""
        assert isinstance(answer, Preempt), answer
        self.preempting[record.uid] = answer.victims
        self.algorithm.add_preempting_pod(record, answer.victims, answer.node)
        self.algorithm.validate()
        return tuple(victim.uid for victim in answer.victims)

    def stop_preempting(self, uid: str) -> None:
        del self.preempting[uid]
        self.algorithm.delete_preempting_pod(self.waiting[uid])
        self.algorithm.validate()

    def restarted(self, seed: int = 0) -> PackingAlgorithm:
        """A fresh algorithm that recovers from the records: nodes, then bound pods in any order, then the rest."""
        order = random.Random(seed)
        fresh = PackingAlgorithm(self.settings)
        for group, tell in (
            (self.nodes, fresh.add_node),
            (self.allocated, fresh.add_allocated_pod),
            (self.waiting, fresh.add_unallocated_pod),
        ):
            records = list(group.values())
            order.shuffle(records)
            for record in records:
                tell(record)
        fresh.validate()
        return fresh
