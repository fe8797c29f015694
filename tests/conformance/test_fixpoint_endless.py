"""Conformance of the dependency engine: bodies that never end, in runs that are cancelled, diverge or are interrupted.

Graces are short here, so a slow machine may abandon a body that would have been interrupted in time: tests of loops
take both, and wait for the end of the thread.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event, Lock, Thread, Timer, main_thread

import pytest

from extender.fixpoint import (
    Code,
    Done,
    End,
    Engine,
    Executor,
    Inline,
    Interrupted,
    Limits,
    Report,
    RunEnd,
    Threads,
    Visit,
)
from extender.fixpoint.interrupts import Call

GRACE = 0.05


def loop() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(1e6)


def wait() -> None:
    Event().wait()


class Endless:
    """Nodes a, b and c never end; others do at once."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = Lock()
        self.started = 0
        self.any = Event()

    def __call__(self, visit: Visit[str]) -> Done[str]:
        if visit.id in "abc":
            with self._lock:
                self.started += 1
            self.any.set()
            self._work()
        return Done()


def cancelled_run(engine: Engine[str], started: Event, seeds: str) -> Report[str]:
    """Return the report of a run that another thread cancels as soon as a body has started."""
    reports: list[Report[str]] = []
    thread = Thread(target=lambda: reports.append(engine.run(seeds)), daemon=True)
    thread.start()
    assert started.wait(20)
    engine.cancel()
    thread.join(20)
    assert reports, "the run did not end"
    return reports[0]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("work", [loop, sleep, wait])
def test_cancel_ends_a_run_whose_bodies_never_end(work: Callable[[], None], workers: int) -> None:
    body = Endless(work)
    report = cancelled_run(Engine(body, executor=Threads(workers, grace=GRACE)), body.any, "abcd")
    assert report.end is RunEnd.CANCELLED
    assert {node.end for node in report.nodes if node.id != "d"} == {End.UNFINISHED}
    codes = [node.reason.code for node in report.nodes if node.reason is not None]
    assert len(codes) == body.started
    if work is not loop:
        assert set(codes) == {Code.ABANDONED}
        assert "its thread is still running" in report.nodes[0].reason.text  # type: ignore[union-attr]
    else:
        assert set(codes) <= {Code.ABANDONED, Code.INTERRUPTED}


def test_cancel_interrupts_a_loop_in_the_thread_that_runs_the_engine() -> None:
    body = Endless(loop)
    report = cancelled_run(Engine(body, executor=Inline(grace=GRACE)), body.any, "ab")
    assert (report.end, report.by_id["b"].end) == (RunEnd.CANCELLED, End.UNFINISHED)
    reason = report.by_id["a"].reason
    assert reason is not None
    assert reason.code is Code.INTERRUPTED


def test_a_body_that_looks_at_cancelled_within_the_grace_ends_by_itself() -> None:
    def body(visit: Visit[str]) -> Done[str]:
        started.set()
        while not visit.cancelled:
            pass
        return Done()

    for executor in (Inline(), Threads(2)):
        started = Event()
        report = cancelled_run(Engine(body, executor=executor), started, "a")
        assert (report.end, report.by_id["a"].end) == (RunEnd.CANCELLED, End.READY)


@pytest.mark.parametrize("make", [lambda: Inline(grace=GRACE), lambda: Threads(3, grace=GRACE)])
def test_a_loop_of_reports_is_interrupted_between_two_changes(make: Callable[[], Executor]) -> None:
    def body(visit: Visit[str]) -> None:
        for number in count():
            visit.arrive(f"{visit.id}{number % 7}", number, runnable=False)
            started.set()

    for _ in range(5):
        started = Event()
        engine = Engine(body, executor=make())
        report = cancelled_run(engine, started, "abc")
        assert report.end is RunEnd.CANCELLED
        engine.validate()


def test_what_an_abandoned_body_reports_and_returns_later_does_not_count() -> None:
    def body(visit: Visit[str]) -> Done[str]:
        if visit.id == "a":
            started.set()
            with suppress(Interrupted):  # what an author who is stubborn may do
                released.wait(20)
            news.append(visit.arrive("late"))
            news.append(visit.gone("b"))
            try:
                visit.gate(())
            except Interrupted:
                news.append("no engine")
            ended.set()
        return Done()

    news: list[object] = []
    started, released, ended = Event(), Event(), Event()
    executor = Threads(2, grace=GRACE)
    engine = Engine(body, executor=executor)
    before = cancelled_run(engine, started, "ab")
    reason = before.by_id["a"].reason
    assert reason is not None
    assert reason.code is Code.ABANDONED
    released.set()
    assert ended.wait(20)
    assert Engine(lambda visit: Done(), executor=executor).run("xyz").ready == ("x", "y", "z")
    assert news == [False, False, "no engine"]
    assert engine.report() == before
    assert engine.run("ab") == before


def test_threads_that_one_run_has_abandoned_do_not_hold_up_the_next() -> None:
    executor = Threads(1, grace=GRACE)
    body = Endless(wait)
    assert cancelled_run(Engine(body, executor=executor), body.any, "a").end is RunEnd.CANCELLED
    assert Engine(lambda visit: Done(), executor=executor).run(range(20)).end is RunEnd.CONVERGED


def test_a_run_that_diverges_does_not_wait_for_a_body_that_never_ends() -> None:
    def body(visit: Visit[str]) -> None:
        if visit.id == "a":
            started.set()
            wait()
        assert started.wait(20)
        visit.arrive("b")

    started = Event()
    report = Engine(body, executor=Threads(2, grace=GRACE), limits=Limits(redispatches=3)).run("ab")
    assert report.end is RunEnd.DIVERGED
    reason = report.by_id["a"].reason
    assert reason is not None
    assert reason.code is Code.ABANDONED


@contextmanager
def ctrl_c_after(started: Event) -> Iterator[None]:
    """Send SIGINT to the main thread 50 ms after the body has started."""

    def send() -> None:
        if started.wait(20):
            time.sleep(0.05)
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(20)
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("work", [loop, sleep, wait])
@pytest.mark.parametrize("make", [Inline, lambda: Threads(1, grace=GRACE), lambda: Threads(3, grace=GRACE)])
def test_ctrl_c_ends_the_run(work: Callable[[], None], make: Callable[[], Executor]) -> None:
    body = Endless(work)
    engine = Engine(body, executor=make())
    with ctrl_c_after(body.any), pytest.raises(KeyboardInterrupt):
        engine.run("abc")
    assert engine.report().by_id["a"].end is not End.READY


def test_a_process_ends_although_a_body_does_not() -> None:
    program = """
from threading import Timer
from extender.fixpoint import Engine, Threads
import time
engine = Engine(lambda visit: time.sleep(1e6), executor=Threads(3, grace=0.05))
Timer(0.2, engine.cancel).start()
print(engine.run("abc").end)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "cancelled\n"


def test_an_interruption_never_reaches_what_comes_after_the_call() -> None:
    """Calls that end at about the time at which they are interrupted: each is interrupted in time, or not at all."""
    for number in range(200):
        call = Call()
        timer = Timer(number % 20 * 1e-5, call.interrupt, [""])
        timer.start()
        try:
            result: object = call(sum, range(3000))
        except Interrupted:
            result = Interrupted
        after = sum(range(2000))
        timer.join()
        assert (result in (Interrupted, sum(range(3000))), after) == (True, 1999000)


def test_a_call_that_swallows_its_interruption_returns() -> None:
    def stubborn(result: str) -> str:
        try:
            started.set()
            loop()
        except Interrupted:
            pass
        return result

    call, started = Call(), Event()
    Thread(target=lambda: started.wait(20) and call.interrupt(""), daemon=True).start()
    assert call(stubborn, "returned") == "returned"


def test_threads_can_be_profiled_after_an_interruption() -> None:
    program = """
import threading
from extender.fixpoint.interrupts import Call, Interrupted
call = Call()
threading.Timer(0.05, call.interrupt, [""]).start()
def loop(_):
    while True:
        pass
try:
    call(loop, None)
except Interrupted:
    threading.setprofile(lambda *_: None)
    thread = threading.Thread(target=print, args=["ran"])
    thread.start()
    thread.join()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "ran\n"
