"""How many requests may be under way at once, found out by a client that has no number given."""

from __future__ import annotations

import math

import pytest

from extender.kube.writes.throttle import InFlight, Signal, Throttle


class Server:
    """Serves so many at once, each in `latency` seconds, and answers more than that with 429."""

    def __init__(self, *, capacity: int, latency: float = 0.02, retry_after: float = 1.0) -> None:
        self.capacity, self.latency, self.retry_after = capacity, latency, retry_after
        self.done = self.refused = 0

    def drive(self, throttle: Throttle, seconds: float, *, start: float = 0.0) -> float:
        """A client that always has more to send. Returns the time at the end."""
        now = start
        flying: list[tuple[float, InFlight]] = []
        while now < start + seconds:
            while throttle.wait(now) == 0:
                busy = sum(flight.signal is Signal.DONE for _, flight in flying)
                flight = throttle.start("bind", now)
                flight.signal = Signal.DONE if busy < self.capacity else Signal.THROTTLED
                flight.retry_after = self.retry_after
                flying.append((now + (self.latency if flight.signal is Signal.DONE else 0.001), flight))
            flying.sort(key=lambda each: each[0])
            if not flying:
                now += throttle.wait(now)
                continue
            now, flight = flying.pop(0)
            throttle.finish(flight, now)
            self.done += flight.signal is Signal.DONE
            self.refused += flight.signal is Signal.THROTTLED
        for _, flight in flying:
            throttle.finish(flight, now)
        return now


def land(throttle: Throttle, signal: Signal, *, now: float = 0.0, took: float = 0.01, retry_after: float = 0.0) -> None:
    """One request alone."""
    flight = throttle.start("bind", now)
    flight.signal, flight.retry_after = signal, retry_after
    throttle.finish(flight, now + took)


def round_trip(throttle: Throttle, signal: Signal, *, now: float = 0.0, took: float = 0.01) -> None:
    """As many as may be, at once."""
    flights = []
    while throttle.wait(now) == 0:
        flights.append(throttle.start("bind", now))
    for flight in flights:
        flight.signal = signal
        throttle.finish(flight, now + took)


@pytest.mark.parametrize(("least", "most"), [(0, 4), (5, 4), (-1, -1)])
def test_bounds_that_make_no_sense_are_refused(least: int, most: int) -> None:
    with pytest.raises(ValueError, match="least"):
        Throttle(least=least, most=most)


@pytest.mark.parametrize(("least", "most", "start"), [(1, 32, 4), (8, 32, 8), (1, 2, 2)])
def test_it_starts_modestly_within_its_bounds(least: int, most: int, start: int) -> None:
    assert Throttle(least=least, most=most).limit == start


def test_it_doubles_with_each_round_trip_while_nobody_has_said_otherwise() -> None:
    throttle = Throttle(least=1, most=32)
    limits = []
    for turn in range(4):
        round_trip(throttle, Signal.DONE, now=float(turn))
        limits.append(throttle.limit)
    assert limits == [5, 6, 7, 8], "only those that took the last place count in a burst"
    Server(capacity=100).drive(throttle, 0.2, start=10.0)
    assert throttle.limit == 32


def test_it_does_not_grow_while_nobody_is_held_back() -> None:
    throttle = Throttle(least=1, most=32)
    for turn in range(100):
        land(throttle, Signal.DONE, now=float(turn))
    assert throttle.limit == 4


def test_it_does_not_grow_when_more_at_once_only_take_longer() -> None:
    throttle = Throttle(least=1, most=32)
    land(throttle, Signal.DONE, took=0.01)
    for turn in range(20):
        round_trip(throttle, Signal.DONE, now=1.0 + turn, took=0.05)
    assert throttle.limit <= 5


def test_a_429_halves_it_and_stops_everybody_for_its_time() -> None:
    throttle = Throttle(least=1, most=32)
    land(throttle, Signal.THROTTLED, now=5.0, took=1.0, retry_after=3.0)
    assert throttle.limit == 2
    assert throttle.wait(6.5) == 2.5
    assert throttle.wait(9.0) == 0


def test_what_was_sent_before_a_cut_does_not_cut_again() -> None:
    throttle = Throttle(least=1, most=32)
    round_trip(throttle, Signal.THROTTLED)
    assert (throttle.limit, throttle.cuts) == (2, 1)


def test_the_longest_pause_counts() -> None:
    throttle = Throttle(least=1, most=32)
    throttle.pause(5.0, 0.0)
    throttle.pause(1.0, 1.0)
    assert throttle.paused(1.0) == 4.0


def test_a_single_failure_says_nothing_of_the_server() -> None:
    throttle = Throttle(least=1, most=32)
    for turn in range(100):
        land(throttle, Signal.FAILED if turn % 10 == 0 else Signal.DONE, now=float(turn))
    assert throttle.limit == 4


def test_failures_in_a_row_halve_it_and_stop_nobody() -> None:
    throttle = Throttle(least=1, most=32)
    for turn in range(3):
        land(throttle, Signal.FAILED, now=float(turn))
    assert (throttle.limit, throttle.wait(3.0)) == (2, 0)


@pytest.mark.parametrize("signal", [Signal.NONE, Signal.REFUSED])
def test_what_concerns_one_request_only_changes_nothing(signal: Signal) -> None:
    throttle = Throttle(least=1, most=32)
    for turn in range(50):
        round_trip(throttle, signal, now=float(turn))
    assert throttle.limit == 4


@pytest.mark.slow
def test_it_finds_what_a_server_takes_and_seldom_asks_for_more() -> None:
    throttle, server = Throttle(least=1, most=32), Server(capacity=6)
    now = server.drive(throttle, 60.0)
    assert throttle.limit in (5, 6)
    before, refused = server.done, server.refused
    server.drive(throttle, 240.0, start=now)
    assert (server.done - before) / (240.0 * 6 / 0.02) > 0.9, "of what the server can do"
    assert server.refused - refused <= 10


@pytest.mark.slow
def test_a_server_that_takes_more_again_is_found_out() -> None:
    throttle, server = Throttle(least=1, most=16), Server(capacity=2)
    now = server.drive(throttle, 300.0)
    assert throttle.limit <= 2
    server.capacity = 100
    server.drive(throttle, 180.0, start=now)
    assert throttle.limit == 16


def test_after_an_outage_it_is_back_within_seconds() -> None:
    throttle, server = Throttle(least=1, most=16), Server(capacity=100)
    now = server.drive(throttle, 5.0)
    server.capacity = 0
    now = server.drive(throttle, 10.0, start=now)
    assert throttle.limit == 1
    assert server.refused < 45, "31 on the way down, then one for each second; a pool of 16 would have had 160"
    server.capacity = 100
    server.drive(throttle, 8.0, start=now)
    assert throttle.limit >= 15


@pytest.mark.slow
def test_a_latency_that_has_changed_for_good_is_learned() -> None:
    """The quickest request of all time is no measure for ever."""
    throttle, server = Throttle(least=1, most=64), Server(capacity=100, latency=0.005)
    now = server.drive(throttle, 0.012)
    server.latency = 0.1
    now = server.drive(throttle, 20.0, start=now)
    assert throttle.limit < 32
    server.drive(throttle, 60.0, start=now)
    assert throttle.limit == 64


def test_kinds_of_requests_have_a_latency_each() -> None:
    throttle = Throttle(least=1, most=32)
    for turn in range(40):
        for kind, took in (("read", 0.001), ("bind", 0.05)):
            flights = [throttle.start(kind, float(turn)) for _ in range(throttle.limit)]
            for flight in flights:
                flight.signal = Signal.DONE
                throttle.finish(flight, turn + took)
    assert throttle.limit == 32


def test_when_all_places_are_taken_only_an_end_helps() -> None:
    throttle = Throttle(least=1, most=2)
    first = throttle.start("bind", 0.0)
    throttle.start("bind", 0.0)
    assert throttle.wait(100.0) == math.inf
    throttle.finish(first, 0.1)
    assert throttle.wait(100.0) == 0
