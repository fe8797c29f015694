"""Mistakes of an algorithm that changes itself when it is asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from algorithm.interface import Bind, Phase, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Pod
from extender.operate.scaffold.slots import Settings, Slots
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import mistake, of_everything


@mistake("schedule-leaves-no-trace", "takes the room when it is asked, not when the pod is allocated")
class CountsInSchedule(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        if isinstance(found, Bind):
            self.used[found.node] += 1
        return found

    def add_allocated_pod(self, pod: Pod) -> None:
        """It was counted when it was asked about."""


@mistake("schedule-leaves-no-trace", "counts refusals for people, and shows the count")
class CountsRefusals(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.refused = 0

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        self.refused += isinstance(found, Wait)
        return found

    def inspect(self) -> Mapping[str, Any]:
        return {"refused": self.refused}


@mistake("schedule-leaves-no-trace", "looks into a defaultdict, which inserts what it is asked for")
class LooksIntoADefaultdict(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.used = defaultdict(int)  # type: ignore[assignment]

    def inspect(self) -> Mapping[str, Any]:
        return {"used": dict(sorted(self.used.items()))}


@mistake("schedule-leaves-no-trace", "goes round: the next pod goes to the next node")
class GoesRound(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.turn = 0

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        free = [name for name in sorted(self.nodes & suggested_nodes.as_set()) if self.used[name] < self.slots]
        self.turn += 1
        return Bind(free[self.turn % len(free)]) if free else super().schedule(pod, suggested_nodes, phase)


@mistake("only-offered-nodes", "remembers the answer by the name of the pod, whatever is offered")
class RemembersAnswersByName(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.answers: dict[str, ScheduleResult] = {}

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if pod.name not in self.answers:
            self.answers[pod.name] = super().schedule(pod, suggested_nodes, phase)
        return self.answers[pod.name]


@of_everything("recovery-keeps-decisions", "allocates what it decided last, not the record that it is told")
class AllocatesItsOwnRecord(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        if isinstance(found, Bind):
            self.decided = {**getattr(self, "decided", {}), pod.uid: found}
        return found

    def add_allocated_pod(self, pod: Pod) -> None:
        mine = getattr(self, "decided", {}).get(pod.uid)
        super().add_allocated_pod(pod.placed(mine.node) if mine is not None else pod)


@of_everything("questions-change-nothing", "hands out its own dict, and a page empties it")
class EmptiesWhatItShows(Everything):
    def inspect(self) -> Mapping[str, Any]:
        return self.nodes

    def page(self, path: str) -> Any:
        shown = self.inspect()
        return {name: shown.pop(name).labels for name in sorted(shown)}  # type: ignore[attr-defined]


@of_everything("questions-change-nothing", "sorts out stale claims when people ask for an explanation")
class TidiesUpInExplain(Everything):
    def explain(self, pod: Pod) -> list[str]:
        self.claims.clear()
        self.seats.clear()
        return ["It waits."]


@of_everything("same-question-same-answer", "takes the nodes in turn, by how often it was asked about this pod")
class TriesAnotherNodeEachTime(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        found = super().offered(pod, suggested_nodes)
        asked = getattr(self, "asked", {})
        self.asked = asked
        asked[pod.uid] = asked.get(pod.uid, 0) + 1
        turn = asked[pod.uid] % len(found) if found else 0
        return found[turn:] + found[:turn]


@mistake("instances-independent", "counts in a Counter of the class, which all instances share", given={"slots": 2})
class SharesTheClass(Slots):
    used: ClassVar[Counter[str]] = Counter()

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        del self.__dict__["used"]
