"""Half of the time for others, but only where something comes as fast as it is taken."""

from __future__ import annotations

from dataclasses import dataclass

from extender.kube.client.pace import Pace
from tests.support.clock import Clock


@dataclass
class SleepingClock(Clock):
    """Time passes by sleeping and by `work`; `slept` is how much of it was sleep."""

    slept: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds


def test_work_without_waiting_takes_half_of_the_time() -> None:
    clock = SleepingClock()
    pace = Pace(clock, clock.sleep)
    for _ in range(1000):
        pace.goes_on()
        clock.work(0.001)
        pace.rest()
        pace.waits()
    assert 0.49 < clock.slept / clock.now < 0.51


def test_who_waits_for_the_server_as_long_as_it_works_never_rests() -> None:
    clock = SleepingClock()
    pace = Pace(clock, clock.sleep)
    for _ in range(1000):
        pace.waits()
        clock.work(0.0011)
        pace.goes_on()
        clock.work(0.001)
        assert not pace.rest()
    assert clock.slept == 0.0


def test_one_long_piece_of_work_is_followed_by_a_short_rest() -> None:
    clock = SleepingClock()
    pace = Pace(clock, clock.sleep)
    clock.work(60.0)
    assert pace.rest()
    assert clock.slept == 0.1
    assert not pace.rest()
