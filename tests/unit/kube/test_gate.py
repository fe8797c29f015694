"""The queue in front of the API server: who goes, in which order, and who is told to come back later."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest

from extender.kube.gate import Gate
from extender.kube.throttle import Flight, Signal, Throttle

WAIT = 20.0


@dataclass
class Item:
    name: str
    given: float = 0.0
    kind: str = "bind"
    patient_until: float | None = None


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> Gate[Item]:
    return Gate(Throttle(least=1, most=2), clock)


def take(gate: Gate[Item]) -> tuple[str, Flight | None]:
    turn = gate.take()
    assert turn is not None
    return turn[0].name, turn[1]


def in_thread(gate: Gate[Item]) -> tuple[threading.Thread, list[str]]:
    """Somebody who waits for a turn."""
    got: list[str] = []
    thread = threading.Thread(target=lambda: got.append(turn[0].name if (turn := gate.take()) else "closed"))
    thread.start()
    return thread, got


def test_first_come_first_served(gate: Gate[Item]) -> None:
    for name in "ab":
        gate.put(Item(name))
    assert [take(gate)[0], take(gate)[0]] == ["a", "b"]


def test_what_is_put_back_goes_before_all_others(gate: Gate[Item]) -> None:
    for name in "ab":
        gate.put(Item(name))
    name, flight = take(gate)
    assert flight is not None
    gate.release(flight)
    assert gate.put_back(Item(name))
    assert take(gate)[0] == "a"


def test_who_comes_to_an_empty_queue_is_woken(gate: Gate[Item]) -> None:
    thread, got = in_thread(gate)
    gate.put(Item("a"))
    thread.join(WAIT)
    assert got == ["a"]


def test_no_more_go_than_the_throttle_allows(gate: Gate[Item]) -> None:
    for name in "abc":
        gate.put(Item(name))
    _, flight = take(gate)
    take(gate)
    assert flight is not None
    assert (gate.throttle.wait(0.0) > 0, gate.depth) == (True, 1)
    gate.release(flight)
    assert take(gate)[0] == "c"


def test_each_who_is_woken_wakes_the_next() -> None:
    """All come while the server wants to be left alone; when that is over, as many go as may."""
    real = Gate[Item](Throttle(least=4, most=4), time.monotonic)
    real.pause(0.2)
    waiting = [in_thread(real) for _ in range(4)]
    for name in "abcd":
        real.put(Item(name))
    for thread, _ in waiting:
        thread.join(WAIT)
    assert sorted(name for _, got in waiting for name in got) == list("abcd")


def test_what_the_server_keeps_waiting_for_too_long_is_handed_out_without_a_flight(
    gate: Gate[Item], clock: Clock
) -> None:
    gate.put(Item("a"))
    gate.pause(3.0)
    assert take(gate) == ("a", None)
    assert gate.throttle.in_flight == 0


def test_patience_begins_with_the_first_pause_and_is_used_up_by_the_next(gate: Gate[Item], clock: Clock) -> None:
    item = Item("a")
    gate.put(item)
    _, flight = take(gate)
    assert flight is not None
    flight.signal, flight.retry_after = Signal.THROTTLED, 1.5
    gate.release(flight)
    assert gate.put_back(item)
    clock.now = 1.5
    _, flight = take(gate)
    assert flight is not None
    flight.signal, flight.retry_after = Signal.THROTTLED, 1.0
    gate.release(flight)
    assert not gate.put_back(item)


def test_a_closed_gate_hands_out_what_waits_and_takes_nothing_more(gate: Gate[Item]) -> None:
    gate.put(Item("a"))
    assert [item.name for item in gate.close()] == ["a"]
    assert not gate.put(Item("b"))
    assert not gate.put_back(Item("c"))
    assert gate.take() is None
    assert not gate.wait_calm()


def test_closing_ends_all_waiting(gate: Gate[Item]) -> None:
    waiting = [in_thread(gate) for _ in range(5)]
    gate.close()
    for thread, got in waiting:
        thread.join(WAIT)
        assert got == ["closed"]


def test_hints_go_when_nothing_else_waits(gate: Gate[Item]) -> None:
    assert gate.wait_calm()


def test_hints_let_others_go_first(gate: Gate[Item]) -> None:
    for name in "abc":
        gate.put(Item(name))
    take(gate)
    _, flight = take(gate)
    calm = threading.Event()
    thread = threading.Thread(target=lambda: gate.wait_calm() and calm.set())
    thread.start()
    assert not calm.wait(0.05)
    assert flight is not None
    gate.release(flight)
    take(gate)
    assert calm.wait(WAIT)
    thread.join(WAIT)


def test_it_says_how_long_the_first_has_waited(gate: Gate[Item], clock: Clock) -> None:
    assert gate.oldest == 0
    gate.put(Item("a", given=1.0))
    gate.put(Item("b", given=4.0))
    clock.now = 5.0
    assert (gate.depth, gate.oldest) == (2, 4.0)
