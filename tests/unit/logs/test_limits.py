"""A flood of one event is cut down to a few lines, counted, and hides nothing else."""

from __future__ import annotations

from queue import SimpleQueue

import pytest
import structlog

from extender.logs.limits import BUDGET, EVENTS, LEFT_OUT, LINES, OTHERS, TRACEBACKS, LineLimiter
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def limiter(clock: Clock) -> LineLimiter:
    return LineLimiter(lambda counts: None, now=clock, said_after=3600)


def passes(limiter: LineLimiter, event: str, **fields: object) -> bool:
    try:
        limiter(None, "warning", {"event": event, **fields})
    except structlog.DropEvent:
        return False
    return True


def flood(limiter: LineLimiter, event: str, count: int, **fields: object) -> int:
    return sum(passes(limiter, event, **fields) for _ in range(count))


def test_a_burst_is_written_and_then_one_a_second(limiter: LineLimiter, clock: Clock) -> None:
    assert flood(limiter, "bad", 1000) == LINES
    clock.now += 3
    assert flood(limiter, "bad", 1000) == 3


def test_after_quiet_there_is_a_whole_burst_again_and_no_more(limiter: LineLimiter, clock: Clock) -> None:
    flood(limiter, "bad", 1000)
    clock.now += 86_400
    assert flood(limiter, "bad", 1000) == LINES


def test_a_flood_of_one_event_hides_no_other(limiter: LineLimiter) -> None:
    flood(limiter, "bad", 1000)
    assert passes(limiter, "verb_failed")


def test_lines_of_one_budget_may_have_many_texts(limiter: LineLimiter) -> None:
    written = sum(passes(limiter, f"text {n}", **{BUDGET: "uvicorn: bad"}) for n in range(1000))
    assert written == LINES


def test_the_name_of_the_budget_is_no_field_of_the_line(limiter: LineLimiter) -> None:
    assert BUDGET not in limiter(None, "warning", {"event": "a", BUDGET: "b"})


def test_events_without_end_share_a_budget_and_take_no_memory(limiter: LineLimiter) -> None:
    written = sum(passes(limiter, f"event {n}") for n in range(10_000))
    assert written == EVENTS + LINES
    assert len(limiter.suppressed()) == EVENTS + 1
    assert limiter.suppressed()[OTHERS] == 10_000 - written


def test_tracebacks_have_a_budget_of_their_own(limiter: LineLimiter, clock: Clock) -> None:
    lines = [limiter(None, "error", {"event": "fault", "exc_info": True}) for _ in range(LINES)]
    assert [line["traceback_left_out"] for line in lines] == [False] * TRACEBACKS + [True] * (LINES - TRACEBACKS)
    clock.now += 10
    assert limiter(None, "error", {"event": "fault", "exc_info": True})["traceback_left_out"] is False


def test_what_is_left_out_is_counted_by_event(limiter: LineLimiter) -> None:
    flood(limiter, "bad", LINES + 7)
    flood(limiter, "fine", 1)
    assert limiter.suppressed() == {"bad": 7, "fine": 0}


def test_what_is_left_out_is_said_once(clock: Clock) -> None:
    said: SimpleQueue[dict[str, int]] = SimpleQueue()
    limiter = LineLimiter(said.put, now=clock, said_after=0.001)
    flood(limiter, "bad", LINES + 1)
    assert said.get(timeout=10) == {"bad": 1}
    limiter.say()
    assert said.empty()


def test_what_is_left_out_later_is_said_again(clock: Clock) -> None:
    said: SimpleQueue[dict[str, int]] = SimpleQueue()
    limiter = LineLimiter(said.put, now=clock, said_after=0.001)
    flood(limiter, "bad", LINES + 1)
    said.get(timeout=10)
    flood(limiter, "bad", 1)
    assert said.get(timeout=10) == {"bad": 1}


def test_one_timer_is_set_however_much_is_left_out(limiter: LineLimiter, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = []
    import threading

    made = threading.Timer
    monkeypatch.setattr(threading, "Timer", lambda *given: timers.append(made(*given)) or timers[-1])
    flood(limiter, "bad", 1000)
    flood(limiter, "worse", 1000)
    assert len(timers) == 1
    timers[0].cancel()


def test_the_line_that_says_it_is_never_left_out(limiter: LineLimiter) -> None:
    assert flood(limiter, LEFT_OUT, 1000) == 1000
