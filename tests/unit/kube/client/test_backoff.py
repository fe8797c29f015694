from __future__ import annotations

import random

from extender.kube.client.backoff import Backoff, BackoffSettings
from tests.support.clock import Clock


def test_delays_double_with_jitter_between_the_shortest_and_the_longest() -> None:
    clock = Clock()
    backoff = Backoff(BackoffSettings(), clock, random.Random(7))
    for bound in (1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0):
        delay = backoff.next()
        assert bound / 2 <= delay <= bound
        clock.now += delay


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(BackoffSettings(), Clock(), random.Random(7))
    assert all(delay <= 30.0 for delay in (backoff.next() for _ in range(5000)))


def test_a_healthy_minute_forgets() -> None:
    clock = Clock()
    backoff = Backoff(BackoffSettings(), clock, random.Random(7))
    for _ in range(6):
        clock.now += backoff.next()
    clock.now += 59.0
    assert backoff.next() > 10.0
    clock.now += 100.0
    assert backoff.next() <= 1.6


def test_the_first_failure_may_be_routine() -> None:
    clock = Clock()
    backoff = Backoff(BackoffSettings(), clock, random.Random(7))
    assert backoff.next(first=0.0) == 0.0
    assert backoff.next(first=0.0) >= 0.8
    clock.now += 100.0
    assert backoff.next(first=0.0) == 0.0
