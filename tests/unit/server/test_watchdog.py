"""What the watchdog says: faults of the algorithm with their tracebacks, decisions that take long, and hangs.

Time is a number that the test sets, and the watchdog looks when the test tells it to. A thread that hangs waits for an
event of the test.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from algorithm.gauges import Gauge
from algorithm.interface import Bind, SuggestedNodes, Wait
from algorithm.reasons import Code, reason
from extender.scheduling.events import NodeSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server import readmodel
from extender.server.guard import SLOW
from extender.server.replay_hint import recorded_in
from extender.server.runtime import Runtime
from extender.server.watchdog import AGAIN
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm

HANG = 30.0


class Watched:
    """A runtime with the clock of the test, whose algorithm can be made to hang."""

    def __init__(self) -> None:
        self.now = 100.0
        self.algorithm = PlainAlgorithm()
        machine = SchedulerStateMachine(self.algorithm)
        self.runtime = Runtime(
            *(machine, lambda _: None),
            clock=lambda: self.now,
            hang=HANG,
            algorithm="slots",
            replay=recorded_in(Path("a log"), lambda number: f"00000{number}.gz" if number > 3 else ""),
        )
        self.runtime.handle(NodeSeen(node("a")), Synced())
        self.goes_on, self.hangs = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._filter, name="the-caller")

    def filter(self, name: str = "p") -> None:
        self.runtime.filter(pod(name), SuggestedNodes(["a"]))

    def _filter(self) -> None:
        self.algorithm.schedule = self._hang  # type: ignore[method-assign]
        self.filter()

    def _hang(self, *_: object) -> Bind:
        self.hangs.set()
        assert self.goes_on.wait(30)
        return Bind("a")

    def hang(self) -> None:
        self.thread.start()
        assert self.hangs.wait(30)

    def end(self) -> None:
        self.goes_on.set()
        self.thread.join()

    def look(self, after: float = 0.0) -> list[dict[str, Any]]:
        """The log lines of one look."""
        self.now += after
        with capture_logs() as lines:
            self.runtime.watchdog.look()
        return list(lines)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def kinds(self) -> dict[str, int]:
        """How many faults of each kind the algorithm has had, as the metric says."""
        (found,) = (each for each in self.runtime.model.stats() if each.name == "waggle_algorithm_faults_total")
        assert {labels["algorithm"] for labels, _ in found.samples} == {"slots"}
        return {labels["kind"]: int(value) for labels, value in found.samples if value}

    def metric(self, name: str) -> float:
        (found,) = (each for each in self.runtime.watchdog.metrics() if each.name == name)
        return found.samples[0][1]


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.goes_on.set()
    if watched.thread.is_alive():
        watched.thread.join()


def fails(*_: object) -> None:
    raise ValueError("no such label")


# -- faults -----------------------------------------------------------------------------------------------------------


def test_an_exception_is_logged_once_with_its_traceback_and_its_pod(watched: Watched) -> None:
    watched.algorithm.schedule = fails  # type: ignore[assignment]
    for name in ("p", "q", "r"):
        watched.filter(name)
    (line,) = watched.look()
    assert (line["event"], line["log_level"]) == ("the algorithm failed", "error")
    assert (line["call"], line["subject"], line["count"]) == ("schedule", "pod default/r", 3)
    assert line["error"] == "ValueError: no such label"
    assert 'raise ValueError("no such label")' in line["exception"]
    assert (line["algorithm"], line["number"], line["replay"]) == (
        "slots",
        5,
        "waggle replay 'a log' --at 5 # 000005.gz",
    )
    assert watched.look() == []


def test_later_there_is_a_count_once_in_a_minute(watched: Watched) -> None:
    watched.algorithm.schedule = fails  # type: ignore[assignment]
    watched.filter()
    watched.look()
    for _ in range(7):
        watched.filter()
    assert watched.look(AGAIN - 1) == []
    (line,) = watched.look(1)
    assert (line["event"], line["more"], line["count"]) == ("the algorithm fails again", 7, 8)
    assert "exception" not in line
    assert watched.look(10 * AGAIN) == []


def test_readiness_names_the_last_fault_for_ten_minutes(watched: Watched) -> None:
    assert watched.runtime.readiness().detail == ""
    watched.algorithm.schedule = fails  # type: ignore[assignment]
    watched.filter()
    watched.now += 12
    said = "algorithm slots failed 1 time, last 12 s ago: schedule (pod default/p): ValueError: no such label"
    remark = f"{said} (event 3; waggle replay 'a log' --at 3)"
    assert watched.runtime.readiness() == (type(watched.runtime.readiness()))(True, remark)
    watched.now += 10 * AGAIN
    assert watched.runtime.readiness().detail == ""


def test_a_node_that_was_not_taken_in_is_logged_and_named_until_it_is(watched: Watched) -> None:
    def add_node(_: object) -> None:
        raise ValueError("no such label")

    watched.algorithm.add_node = add_node  # type: ignore[method-assign]
    watched.runtime.handle(NodeSeen(node("b")))
    (line,) = watched.look()
    assert (line["call"], line["subject"]) == ("add_node", "node b")
    watched.now += 20 * AGAIN
    assert watched.runtime.readiness().detail == "the algorithm failed to take in nodes, which get no pods: b"
    with watched.runtime.loop.paused():
        probed = watched.runtime.readiness().detail  # a probe does not wait for the lock
    assert probed == "the algorithm failed to take in nodes, which get no pods: b"
    assert watched.runtime.model.algorithm_faults().unknown_nodes == ("b",)


def test_a_gauge_that_is_not_valid_is_named(watched: Watched) -> None:
    watched.algorithm.metrics = lambda: (Gauge("Slots!", "Slots."),)  # type: ignore[method-assign]
    watched.runtime.model.stats()
    (line,) = watched.look()
    assert line["call"] == "metrics"
    assert line["error"].startswith("metrics returned gauge Slots!: expected a name")


def test_an_algorithm_that_cannot_show_its_state_is_a_fault_and_no_error_of_the_page(watched: Watched) -> None:
    watched.algorithm.inspect = fails  # type: ignore[assignment]
    assert watched.runtime.model.algorithm_state() == msgspec.Raw(b"{}")
    last = watched.runtime.model.algorithm_faults().last
    assert last is not None
    assert (last.call, last.text) == ("inspect", "ValueError: no such label")


# -- slow turns -------------------------------------------------------------------------------------------------------


def test_a_decision_that_takes_long_is_logged_with_the_stack_of_its_thread(watched: Watched) -> None:
    watched.hang()
    assert watched.look() == []
    (line,) = watched.look(SLOW)
    assert (line["event"], line["seconds"], line["thread"]) == ("slow: the engine is busy", SLOW, "the-caller")
    assert (line["kind"], line["pod"]) == ("FilterRequested", "default/p")
    assert "in _hang" in line["exception"]
    assert "self.goes_on.wait(30)" in line["exception"]
    assert watched.look(1) == []
    assert watched.metric("waggle_engine_slow_turns_total") == 1
    assert watched.metric("waggle_engine_busy_seconds") == SLOW + 1
    assert (line["algorithm"], line["number"], line["replay"]) == ("slots", "3", "waggle replay 'a log' --at 3")
    busy = "the engine (algorithm slots) has been busy with one event for 2 s"
    assert watched.runtime.readiness().detail == busy


def test_its_end_is_logged_with_how_long_it_took(watched: Watched) -> None:
    watched.hang()
    watched.look()
    watched.look(12)
    watched.end()
    line, fault = watched.look()
    assert (line["event"], line["seconds"]) == ("slow: the engine goes on", 12)
    assert (fault["event"], fault["algorithm"], fault["subject"]) == ("the algorithm is slow", "slots", "pod default/p")
    assert watched.metric("waggle_engine_busy_seconds") == 0
    slow = "algorithm slots was slow 1 time, last 0 s ago: schedule (pod default/p): took 12.0 s"
    assert watched.runtime.readiness().detail.startswith(slow)
    assert watched.kinds() == {"slow": 1}


def test_a_start_may_take_long(watched: Watched) -> None:
    watched.algorithm.add_node = lambda _: watched.wait(60)  # type: ignore[method-assign]
    watched.runtime.handle(Synced())
    assert watched.kinds() == {}
    watched.runtime.handle(NodeSeen(node("b")))
    assert watched.kinds() == {"slow": 1}


def test_quick_turns_one_after_the_other_are_not_slow(watched: Watched) -> None:
    for _ in range(5):
        watched.filter()
        assert watched.look(10 * SLOW) == []
    assert watched.metric("waggle_engine_slow_turns_total") == 0


def test_a_reader_that_holds_the_lock_for_long_is_noticed_too(watched: Watched) -> None:
    with watched.runtime.loop.paused():
        watched.look()
        (line,) = watched.look(SLOW)
    assert (line["event"], line["kind"]) == ("slow: the engine is busy", "a look at the engine")


def test_a_hang_fails_livez_with_its_reason_without_the_lock(watched: Watched) -> None:
    watched.hang()
    watched.look()
    watched.look(HANG - 1)
    assert watched.runtime.liveness().ready
    (line,) = watched.look(1)
    assert (line["event"], line["log_level"]) == ("the engine hangs, /livez fails", "error")
    assert "in _hang" in line["exception"]
    alive = watched.runtime.liveness()
    assert (alive.ready, alive.detail) == (
        False,
        "the engine (algorithm slots) has been busy with one event for more than 30 s",
    )
    watched.end()
    watched.look()
    assert watched.runtime.liveness().ready


def test_metrics_are_shown_while_the_engine_hangs(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readmodel, "_PATIENCE", 0.01)
    everything = {metric.name for metric in watched.runtime.model.stats()}
    watched.hang()
    assert {metric.name for metric in watched.runtime.model.stats()} < everything
    watched.look()
    watched.look(SLOW)
    shown = {metric.name: metric.samples for metric in watched.runtime.model.stats()}
    assert shown["waggle_engine_busy_seconds"] == [({}, SLOW)]


def test_a_reason_that_moves_is_logged_once_and_is_no_fault(watched: Watched) -> None:
    numbers = itertools.count()
    moving = [Wait(reason(Code.OTHER, detail=f"wait {next(numbers)} s")) for _ in range(50)]
    watched.algorithm.schedule = lambda *_: moving.pop()  # type: ignore[method-assign]
    for _ in range(50):
        watched.filter()
    (line,) = watched.look()
    assert (line["event"], line["log_level"]) == ("a reason keeps changing", "warning")
    assert (line["algorithm"], line["subject"]) == ("slots", "pod default/p")
    moving_reason = "algorithm slots kept changing a reason 1 time, last 0 s ago: schedule (pod default/p): 10 texts"
    assert watched.runtime.readiness().detail.startswith(moving_reason)
    assert watched.runtime.model.algorithm_faults().total == 0
    assert watched.kinds() == {"unsteady_reason": 1}


def test_an_answer_outside_of_the_offer_is_a_breach_by_name(watched: Watched) -> None:
    watched.algorithm.schedule = lambda *_: Bind("elsewhere")  # type: ignore[method-assign]
    watched.filter()
    (line,) = watched.look()
    assert (line["event"], line["algorithm"]) == ("the algorithm broke its contract", "slots")
    assert line["error"] == "it chose node elsewhere, which was not offered"
    assert "algorithm slots broke its contract 1 time" in watched.runtime.readiness().detail
    assert watched.kinds() == {"broke_contract": 1}
