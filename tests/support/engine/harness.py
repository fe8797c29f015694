"""Drives the engine of pods as the I/O layers do, with a clock that the test sets. Validates it after every event."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypeVar

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import BindFinished, PodRead
from extender.scheduling.events import (
    BindAnswer,
    BindRequested,
    Candidate,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeSeen,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    PrioritizeAnswer,
    PrioritizeRequested,
    Synced,
    Ticked,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.engine.plain_algorithm import PlainAlgorithm

T = TypeVar("T")


class EngineHarness:
    """One engine under test. `now` moves only when the test says so."""

    def __init__(self, *, synced: bool = True, **policy: Any) -> None:
        self.algorithm = PlainAlgorithm()
        self.machine = SchedulerStateMachine(self.algorithm, Policy(**policy))
        self.now = 100.0
        self.requests = itertools.count(1)
        if synced:
            self.handle(Synced())

    def handle(self, event: Event) -> list[Instruction]:
        out = self.machine.handle(event, self.now)
        self.machine.validate()
        assert not self.algorithm.broken, self.algorithm.broken
        return out

    def see(self, *objects: Any) -> list[Instruction]:
        """The informer shows pods and nodes."""
        out = []
        for item in objects:
            out += self.handle(PodSeen(item) if isinstance(item, Pod) else NodeSeen(item))
        return out

    def filter(self, pod: Pod, *nodes: str) -> FilterAnswer:
        return only(self.handle(FilterRequested(pod, SuggestedNodes(nodes))), FilterAnswer)

    def filter_all(self, pod: Pod, *nodes: str) -> list[Instruction]:
        return self.handle(FilterRequested(pod, SuggestedNodes(nodes)))

    def preempt(self, pod: Pod, *nodes: str) -> PreemptAnswer:
        return only(self.handle(PreemptRequested(pod, tuple(Candidate(n) for n in nodes))), PreemptAnswer)

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        return only(self.handle(PrioritizeRequested(pod, nodes)), PrioritizeAnswer).scores

    def bind(self, pod: Pod, node: str) -> list[Instruction]:
        return self.handle(BindRequested(next(self.requests), pod.namespace, pod.name, pod.uid, node))

    def finish(self, token: int, kind: OutcomeKind, detail: str = "") -> list[Instruction]:
        return self.handle(BindFinished(token, Outcome(kind, detail)))

    def read(self, token: int, pod: Pod | None, kind: OutcomeKind = OutcomeKind.DONE) -> list[Instruction]:
        kind = OutcomeKind.GONE if pod is None and kind is OutcomeKind.DONE else kind
        return self.handle(PodRead(token, Outcome(kind), pod))

    def tick(self, seconds: float) -> list[Instruction]:
        self.now += seconds
        return self.handle(Ticked())

    def state(self, pod: Pod) -> str:
        pod_info = self.machine.find(pod.namespace, pod.name)
        return pod_info.state.value if pod_info is not None and pod_info.uid == pod.uid else "Unknown"


def only(instructions: list[Instruction], kind: type[T]) -> T:
    """The one instruction of this kind."""
    found = [item for item in instructions if isinstance(item, kind)]
    assert len(found) == 1, f"expected one {kind.__name__}: {instructions}"
    return found[0]


def error_of(instructions: list[Instruction]) -> str | None:
    """The code of the one bind answer's error; None if it is a success."""
    answer = only(instructions, BindAnswer)
    return answer.error.code.value if answer.error else None
