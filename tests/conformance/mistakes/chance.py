"""Mistakes of an algorithm that decides by what it was not told: chance, clocks, hash seeds, addresses."""

from __future__ import annotations

import os
import random
import time
from typing import ClassVar

from algorithm.interface import Phase, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import of_everything


@of_everything("hash-seeds-decide-alike", "iterates over a set of names")
class IteratesOverASet(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        return list(set(self.nodes) & suggested_nodes.as_set())


@of_everything("hash-seeds-decide-alike", "breaks ties by hash()")
class BreaksTiesByHash(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        return sorted(super().offered(pod, suggested_nodes), key=lambda name: hash((name, pod.uid)))


@of_everything("uses-no-random-numbers", "breaks ties at random")
class BreaksTiesAtRandom(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        found = super().offered(pod, suggested_nodes)
        return random.sample(found, len(found))


@of_everything("reads-no-clock", "lets pods wait for a second before they preempt")
class WaitsForASecond(Everything):
    def add_unallocated_pod(self, pod: Pod) -> None:
        self.since = {**getattr(self, "since", {}), pod.uid: time.monotonic()}
        super().add_unallocated_pod(pod)

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if phase is Phase.PREEMPTING and time.monotonic() - getattr(self, "since", {}).get(pod.uid, 0) < 1:
            return Wait(reason(Code.OTHER, detail="it waits before it preempts"))
        return super().schedule(pod, suggested_nodes, phase)


@of_everything("set-time-decides-nothing", "uses the time that is for people to decide: nothing after 22 o'clock")
class DecidesByTheTime(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if self.now // 3600 % 24 >= 22:
            return Wait(reason(Code.OTHER, detail="no pods at night"))
        return super().schedule(pod, suggested_nodes, phase)


@of_everything("reads-no-environment", "has a switch in the environment in place of a setting")
class HasASwitchInTheEnvironment(Everything):
    def fits(self, node: Node, zone: str | None) -> bool:
        return os.environ.get("SLOTS_ANY_ZONE") == "1" or super().fits(node, zone)


@of_everything("recovery-in-any-order", "fills nodes in the order in which it was told of them")
class FillsInTheOrderOfArrival(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        offered = suggested_nodes.as_set()
        return [name for name in self.nodes if name in offered]


@of_everything("recovery-in-any-order", "evicts the pod that it was told of last")
class EvictsTheLast(Everything):
    def lower(self, name: str, pod: Pod) -> list[Pod]:
        own = self.priority(pod)
        here = [each for each in self.pods.values() if each.node_name == name and self.priority(each) < own]
        return here[::-1]


#: What `KeepsSizesByName` keeps for all algorithms of the process.
_SIZES: dict[str, int] = {}


@of_everything("lives-are-independent", "keeps what pods ask for in a dict of the module, by the names of the pods")
class KeepsSizesByName(Everything):
    def free(self, name: str, pod: Pod) -> int:
        asked = sum(amount for resource, amount in pod.requests if resource == "cpu")
        return super().free(name, pod) - (_SIZES.setdefault(pod.name, asked) >= 2000)


@of_everything("lives-are-independent", "prefers nodes in the order of a list of the class, which is never emptied")
class ListsNodesInTheClass(Everything):
    known: ClassVar[list[str]] = []

    def add_node(self, node: Node) -> None:
        if node.name not in self.known:
            self.known.append(node.name)
        super().add_node(node)

    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        return sorted(super().offered(pod, suggested_nodes), key=self.known.index)
