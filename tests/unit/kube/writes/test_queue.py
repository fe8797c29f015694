"""The queue in front of the API server: who goes, in which order, and who is told to come back later."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from extender.kube.writes.queue import WriteQueue
from extender.kube.writes.throttle import InFlight, Signal, Throttle
from tests.support.clock import Clock

WAIT = 20.0


@dataclass
class Item:
    name: str
    given: float = 0.0
    kind: str = "bind"
    patient_until: float | None = None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> WriteQueue[Item]:
    return WriteQueue(Throttle(least=1, most=2), clock)


def take(gate: WriteQueue[Item]) -> tuple[str, InFlight | None]:
    turn = gate.take()
    assert turn is not None
    return turn[0].name, turn[1]


def test_first_come_first_served(gate: WriteQueue[Item]) -> None:
    for name in "ab":
        gate.put(Item(name))
    assert [take(gate)[0], take(gate)[0]] == ["a", "b"]


def test_what_is_put_back_goes_before_all_others(gate: WriteQueue[Item]) -> None:
    for name in "ab":
        gate.put(Item(name))
    name, flight = take(gate)
    assert flight is not None
    gate.release(flight)
    assert gate.put_back(Item(name))
    assert take(gate)[0] == "a"


def test_nobody_goes_from_an_empty_queue(gate: WriteQueue[Item]) -> None:
    assert gate.take() is None
    assert gate.patience() is None


def test_no_more_go_than_the_throttle_allows(gate: WriteQueue[Item]) -> None:
    for name in "abc":
        gate.put(Item(name))
    _, flight = take(gate)
    take(gate)
    assert flight is not None
    assert (gate.take(), gate.patience(), gate.depth) == (None, None, 1)
    gate.release(flight)
    assert take(gate)[0] == "c"


def test_while_the_server_wants_to_be_left_alone_nobody_goes_and_it_says_for_how_long(
    gate: WriteQueue[Item], clock: Clock
) -> None:
    gate.put(Item("a"))
    gate.pause(1.5)
    assert (gate.take(), gate.patience()) == (None, 1.5)
    clock.now = 1.0
    assert gate.patience() == 0.5
    clock.now = 1.5
    assert gate.patience() is None
    assert take(gate)[0] == "a"


def test_what_the_server_keeps_waiting_for_too_long_is_handed_out_without_a_flight(
    gate: WriteQueue[Item], clock: Clock
) -> None:
    gate.put(Item("a"))
    gate.pause(3.0)
    assert take(gate) == ("a", None)
    assert gate.throttle.in_flight == 0


def test_patience_begins_with_the_first_pause_and_is_used_up_by_the_next(gate: WriteQueue[Item], clock: Clock) -> None:
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


def test_a_closed_gate_hands_out_what_waits_and_takes_nothing_more(gate: WriteQueue[Item]) -> None:
    gate.put(Item("a"))
    assert [item.name for item in gate.close()] == ["a"]
    assert not gate.put(Item("b"))
    assert not gate.put_back(Item("c"))
    assert gate.take() is None
    assert not gate.wait_calm()


def test_hints_go_when_nothing_else_waits(gate: WriteQueue[Item]) -> None:
    assert gate.wait_calm()


def test_hints_let_others_go_first(gate: WriteQueue[Item]) -> None:
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


def test_it_says_how_long_the_first_has_waited(gate: WriteQueue[Item], clock: Clock) -> None:
    assert gate.oldest == 0
    gate.put(Item("a", given=1.0))
    gate.put(Item("b", given=4.0))
    clock.now = 5.0
    assert (gate.depth, gate.oldest) == (2, 4.0)
