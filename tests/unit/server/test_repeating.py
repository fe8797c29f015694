"""A thread that repeats: at its time, when woken, after a bug, and not after its end."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import structlog

from extender.server.repeating import RepeatingThread
from tests.support.apiserver.api import eventually


def test_it_waits_as_long_as_the_turn_said_or_until_it_is_woken() -> None:
    turns: SimpleQueue[int] = SimpleQueue()
    pauses: list[float | None] = [0.01, 600.0, None]

    def turn() -> float | None:
        turns.put(1)
        return pauses.pop(0)

    thread = RepeatingThread("t", turn, pause=600)
    thread.start()
    thread.start()
    turns.get(timeout=10)
    turns.get(timeout=10)
    thread.wake()
    turns.get(timeout=10)
    thread.stop()
    thread.stop()
    assert turns.empty()
    assert not any(each.name == "t" for each in threading.enumerate())


def test_a_wake_during_a_turn_is_followed_by_another_turn() -> None:
    begun, go_on, turns = threading.Event(), threading.Event(), []

    def turn() -> None:
        turns.append(1)
        begun.set()
        go_on.wait(10)

    thread = RepeatingThread("t", turn, pause=600)
    thread.start()
    begun.wait(10)
    thread.wake()
    go_on.set()
    eventually(lambda: len(turns) == 2)
    thread.stop()


def test_a_turn_that_raises_is_logged_once_for_each_kind_and_the_thread_goes_on() -> None:
    faults: list[BaseException] = [KeyError("a"), KeyError("b"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]
    ended = threading.Event()

    def turn() -> float:
        if faults:
            raise faults.pop(0)
        return 600

    thread = RepeatingThread("t", turn, pause=0.001, at_end=ended.set)
    with structlog.testing.capture_logs() as logs:
        thread.start()
        eventually(lambda: not faults)
        thread.stop()
    assert [each["thread"] for each in logs] == ["t"] * 4
    assert ended.is_set()


def test_after_its_end_it_does_not_start() -> None:
    turns: list[int] = []
    thread = RepeatingThread("t", lambda: turns.append(1), pause=1, at_end=lambda: turns.append(2))
    thread.stop()
    thread.start()
    assert turns == []
