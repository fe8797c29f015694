"""The `World` of a plan from what the server sent: its copy of the nodes and of the pods on them, and what is live.

A pod of the copy that was also read in full has the specs of the one and the place of the other. Other pods of the copy
have no owner, no host ports and no selectors: they are where they are. If a plan evicts one of them, it is read.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from algorithm.model import Node, Pod
from extender.embedded.kubescheduler.model import SchedNode, SchedPod
from extender.kube.informers.envelopes import decode_page
from extender.plan.reading.gangs import gang_of
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import PlanPod, World
from extender.server.plans.frames import Live, Message, Nodes, Objects, Order, Pods


class WorldBuilder:
    """Collects what is sent for an order."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._reader = WorldReader(order.settings, order.scheduler, algorithm=order.algorithm)
        self._nodes: list[SchedNode] = []
        self._placed: dict[str, Pod] = {}
        #: The UIDs of pods that are known by their records alone.
        self.lean: frozenset[str] = frozenset()

    def add(self, message: Message) -> None:
        if isinstance(message, Nodes):
            self._nodes += map(sched_node, message.nodes)
        elif isinstance(message, Pods):
            self._placed.update((pod.uid, pod) for pod in message.pods)
        elif isinstance(message, Live):
            self._read("v1", "Pod", message.page)
        elif isinstance(message, Objects):
            self._read(message.api_version, message.kind, message.page)

    def _read(self, api_version: str, kind: str, page: bytes) -> None:
        for raw in decode_page(page).items or ():
            self._reader.add(api_version, kind, raw)

    def world(self) -> World:
        """Return the world as it is known so far."""
        order = self._order
        read = self._reader.world(source="the server's own copy", taken=order.taken, release=order.release)
        pods = tuple(sorted(self._pods(read.pods), key=_age))
        return msgspec.structs.replace(read, nodes=tuple(self._nodes), pods=pods)

    def _pods(self, read: tuple[PlanPod, ...]) -> Iterable[PlanPod]:
        """The later of two records of a pod that was read twice."""
        live = {each.pod.uid: each for each in read if not each.pod.pod.finished}
        self.lean = frozenset(self._placed.keys() - live.keys())
        for uid, pod in self._placed.items():
            found = live.pop(uid, None)
            yield placed_pod(pod) if found is None else _at(found, pod)
        yield from live.values()

    def notes(self) -> list[str]:
        """Sentences about what the last world does not know."""
        known = (
            f"{len(self.lean)} running pods are known by what they take: their host ports are not considered, nor what "
            "they belong to"
        )
        return [*self._reader.faults, *([known] if self.lean else [])]


def sched_node(node: Node) -> SchedNode:
    return SchedNode(node=node, raw=b"", conditions=(("Ready", "True" if node.ready else "False"),))


def placed_pod(pod: Pod) -> PlanPod:
    """A pod that is known by its record alone."""
    names = frozenset(name for name, _ in (*pod.requests, *pod.limits))
    known = SchedPod(pod=pod, raw=b"", resource_names=names, started=pod.created)
    group = gang_of(pod, dict(pod.annotations), dict(pod.labels))
    return PlanPod(pod=known, group=group, ready=pod.phase == "Running")


def _at(live: PlanPod, placed: Pod) -> PlanPod:
    """The pod in full, where the server's record says that it is, with the annotations that decisions wrote."""
    annotations = dict(live.pod.pod.annotations) | {name: text for name, text in placed.annotations if text}
    pod = msgspec.structs.replace(
        live.pod.pod, node_name=placed.node_name, annotations=tuple(sorted(annotations.items()))
    )
    return msgspec.structs.replace(live, pod=msgspec.structs.replace(live.pod, pod=pod))


def _age(pod: PlanPod) -> tuple[str, str, str]:
    return pod.pod.pod.created, pod.pod.pod.namespace, pod.pod.pod.name
