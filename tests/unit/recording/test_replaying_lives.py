"""A recorded life is replayed without holes: a random simulation, by way of bytes, into a fresh engine.

The simulation is that of tests.frozen: every fault, elections, crashes, changed settings, prioritize. Each replica
records what it heard and said. A fresh engine with the recorded settings and policy must say the same, and every pod
must have the same history, whose numbers are those of the recorded events.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from extender.recording.encoding import LineWriter
from extender.recording.records import RecordingError
from extender.scheduling.machine import SchedulerStateMachine
from tests.support.engine.lives import QuietLifeError, lives
from tests.support.engine.logs import replayed


def histories(engine: SchedulerStateMachine) -> dict[str, Any]:
    return {pod_info.uid: (pod_info.state, pod_info.node, tuple(pod_info.history)) for pod_info in engine.pod_infos()}


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.integers(0, 100_000))
def test_a_recorded_life_replays_byte_for_byte(algorithm: str, draw: int) -> None:
    try:
        found = lives(algorithm, seed=3 * draw)
    except QuietLifeError:
        reject()
    for life in found:
        replay, said = replayed(life.log)
        assert said == life.said
        assert histories(replay.engine) == histories(life.engine)
        for pod_info in replay.engine.pod_infos():
            assert all(life.heard[line.event - 1][1] == line.at for line in pod_info.history), "another event's number"


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
def test_what_is_written_later_is_what_was_heard_and_said(algorithm: str) -> None:
    """The recorder keeps references: nobody may change an event or an answer after the engine gave it."""
    for life in lives(algorithm, seed=6):
        writer, head = LineWriter(), life.log.split(b"\n", 1)[0] + b"\n"
        heard = enumerate(zip(life.heard, life.answers, strict=True), start=1)
        assert head + b"".join(writer.event(n, at, event, out) for n, ((event, at), out) in heard) == life.log


def test_pods_that_are_due_at_the_same_time_keep_their_order() -> None:
    """The engine tidies up its timers when it is asked when it is next due, and a replay asks as the server does."""
    for life in lives("packing", seed=5049):
        assert replayed(life.log)[1] == life.said


def test_a_missing_event_is_noticed() -> None:
    life = lives("packing", seed=6)[0]
    lines = life.log.splitlines(keepends=True)
    with pytest.raises(RecordingError, match="log:6: expected event 5, not 6"):
        replayed(b"".join([*lines[:5], *lines[6:]]))
