"""The engine as it is today, for recordings: all that tests.frozen knows of it. Moves and renames end here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from algorithm.model import Pod
from algorithm.registry import create
from extender.scheduling import events
from extender.scheduling.events import PrepareAlgorithm
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.frozen.plain import KIND, record_of


@dataclass(frozen=True, slots=True)
class Explain:
    """A question that is no event of the engine: why does this pod wait? It changes nothing."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Explanation:
    sentences: tuple[str, ...] = ()


_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in (*events.Event.__args__, Explain)}


def event_of(known: Mapping[str, Any]) -> Any:
    """The event that a recording holds, already in today's words. Raises msgspec.ValidationError."""
    return record_of(known, _EVENTS[known[KIND]])


def policy_of(known: Mapping[str, Any]) -> Policy:
    """The recorded policy, under which no pod is tried again because room is kept for it: that came later."""
    policy = record_of(known, Policy)
    assert isinstance(policy, Policy)
    return replace(policy, limits=replace(policy.limits, unasked=0.0))


class Replayed:
    """A fresh engine with its algorithm, into which events are put again."""

    def __init__(self, algorithm: str, settings: Mapping[str, Any], policy: Policy) -> None:
        self.engine = SchedulerStateMachine(create(algorithm, settings), policy)

    def handle(self, event: Any, now: float) -> list[Any]:
        if isinstance(event, Explain):
            return explain(self.engine, event)
        out = self.engine.handle(event, now)
        for instruction in out:
            if isinstance(instruction, PrepareAlgorithm):
                self.engine.preparations.carry_out(instruction, create)
        return out


def explain(engine: SchedulerStateMachine, asked: Explain) -> list[Any]:
    if asked.pod.uid not in engine.driver.unallocated:
        return [Explanation()]
    return [Explanation(tuple(engine.driver.algorithm.explain(asked.pod)))]


def is_ready(engine: SchedulerStateMachine) -> bool:
    """Whether it would answer a verb."""
    return not engine.missing()


def next_due(engine: SchedulerStateMachine) -> float | None:
    """When it wants to be told that time has passed, seconds."""
    return engine.next_due()


def pods_of(engine: SchedulerStateMachine) -> list[list[str]]:
    """Every pod that it knows, by name: UID, state, node, and the code of why it waits."""
    return [
        [
            str(pod_info.key),
            pod_info.uid,
            pod_info.state.value,
            pod_info.node,
            pod_info.reason.code if pod_info.reason else "",
        ]
        for pod_info in engine.pod_infos()
    ]


def counts_of(engine: SchedulerStateMachine) -> list[list[Any]]:
    """What it has counted for metrics."""
    return sorted([*key, number] for key, number in engine.counts.items() if number)
