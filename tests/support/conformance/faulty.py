"""Plug-ins that break one promise each, for tests of the kit's reports."""

from __future__ import annotations

from algorithm.interface import Bind, Phase, ScheduleResult, SuggestedNodes
from algorithm.model import Pod
from algorithm.registry import Plugin
from tests.support.conformance.slots import Settings, Slots


class IgnoresTheOffer(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return next((Bind(name) for name in sorted(self.nodes)), super().schedule(pod, suggested_nodes, phase))


class TakesAtOnce(Slots):
    """It takes the room when it answers."""

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        answer = super().schedule(pod, suggested_nodes, phase)
        if isinstance(answer, Bind):
            self.used[answer.node] += 1
        return answer


class Hashed(Slots):
    """The first of a set of texts: another one in each process."""

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        there = {name for name in self.nodes if name in suggested_nodes}
        return next((Bind(name) for name in there), super().schedule(pod, suggested_nodes, phase))


IGNORES_THE_OFFER = Plugin(settings=Settings, create=IgnoresTheOffer)
TAKES_AT_ONCE = Plugin(settings=Settings, create=TakesAtOnce)
HASHED = Plugin(settings=Settings, create=Hashed)


class ForgetsItsDecision(Slots):
    """It writes with the Bind how many slots a pod takes, reads it again, and does not declare that it does."""

    def _taken(self, pod: Pod) -> int:
        return int(pod.annotation("example.com/slots") or 1)

    def add_allocated_pod(self, pod: Pod) -> None:
        self.used[pod.node_name] += self._taken(pod)

    def delete_allocated_pod(self, pod: Pod) -> None:
        self.used[pod.node_name] -= self._taken(pod)

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        answer = super().schedule(pod, suggested_nodes, phase)
        return Bind(answer.node, (("example.com/slots", "3"),)) if isinstance(answer, Bind) else answer


FORGETS_ITS_DECISION = Plugin(settings=Settings, create=ForgetsItsDecision, annotations=())
