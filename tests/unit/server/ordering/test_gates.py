"""How long gates take: measured from the first attempt until the API server has done it."""

from __future__ import annotations

import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.ordering.records import PodKey
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.server.ordering.gates import GateTimes
from tests.support.clock import Clock

KEY = PodKey("default", "b")


def begin(times: GateTimes, token: int = 1) -> None:
    times.began(RemoveGate(token=token, key=KEY, uid="u", place=0))


def end(times: GateTimes, kind: OutcomeKind) -> None:
    times.ended(GateRemoved(1, KEY, "u", Outcome(kind)))


def shown(times: GateTimes) -> tuple[float, float]:
    """How many were measured, and the sum of their seconds."""
    (metric,) = times.metrics()
    return metric.samples[-1][1], metric.sums[0][1]


def test_a_repeated_removal_is_measured_from_its_first_attempt() -> None:
    clock = Clock()
    times = GateTimes(clock)
    begin(times)
    clock.now += 1
    end(times, OutcomeKind.THROTTLED)
    begin(times, 2)
    clock.now += 2
    end(times, OutcomeKind.DONE)
    assert shown(times) == (1.0, 3.0)


@pytest.mark.parametrize("kind", [OutcomeKind.GONE, OutcomeKind.STALE])
def test_a_pod_that_is_gone_is_forgotten(kind: OutcomeKind) -> None:
    times = GateTimes(Clock())
    begin(times)
    end(times, kind)
    end(times, OutcomeKind.DONE)
    assert shown(times) == (0.0, 0.0)


def test_a_pod_that_is_shown_bound_before_its_gate_is_answered_counts() -> None:
    times = GateTimes(Clock())
    begin(times)
    times.over("u")
    end(times, OutcomeKind.DONE)
    end(times, OutcomeKind.DONE)
    assert shown(times) == (1.0, 0.0)


def test_a_pod_that_is_over_is_forgotten() -> None:
    times = GateTimes(Clock())
    begin(times)
    end(times, OutcomeKind.THROTTLED)
    times.over("u")
    begin(times)
    times.over("u")
    end(times, OutcomeKind.UNKNOWN)
    assert not times._removals
