"""How long callers wait: the last minute of a pool, and the histogram of a scrape."""

from __future__ import annotations

import pytest
from prometheus_client.exposition import generate_latest

from extender.claims.codes import ClaimCode
from extender.claims.records import PoolKey
from extender.server.claims.answers import AnswerTimes
from extender.web.pages.metrics import Metrics
from tests.support.clock import Clock

POOL = PoolKey("default", "warm")


def test_quantiles_of_the_last_minute_are_within_a_tenth() -> None:
    times = AnswerTimes(Clock())
    for number in range(1, 1001):
        times.add(POOL, ClaimCode.CLAIMED, number / 1000)
    found = times.latency(POOL)
    assert found.answers == 1000
    assert found.p50 == pytest.approx(0.5, rel=0.1)
    assert found.p99 == pytest.approx(0.99, rel=0.1)


def test_only_claims_of_the_last_minute_count() -> None:
    clock = Clock()
    times = AnswerTimes(clock)
    times.add(POOL, ClaimCode.CLAIMED, 5.0)
    clock.now += 30
    times.add(POOL, ClaimCode.CLAIMED, 0.0)
    times.add(POOL, ClaimCode.NO_IDLE_POD, 9.0)
    assert times.latency(POOL).answers == 2
    clock.now += 45
    found = times.latency(POOL)
    assert (found.answers, found.p99 < 0.001) == (1, True)
    clock.now += 60
    assert times.latency(POOL) == (0, 0.0, 0.0)


def test_the_histogram_is_one_that_prometheus_reads() -> None:
    times = AnswerTimes(Clock())
    for seconds in (0.003, 0.004, 0.2):
        times.add(POOL, ClaimCode.CLAIMED, seconds)
    times.add(PoolKey("x", "y"), ClaimCode.UNKNOWN_POOL, 0.001)
    text = generate_latest(Metrics(None, lambda: [times.metric()]).registry).decode()
    assert "# TYPE waggle_claims_answer_seconds histogram" in text
    for line in (
        'waggle_claims_answer_seconds_bucket{code="Claimed",le="0.002"} 0.0',
        'waggle_claims_answer_seconds_bucket{code="Claimed",le="0.005"} 2.0',
        'waggle_claims_answer_seconds_bucket{code="Claimed",le="+Inf"} 3.0',
        'waggle_claims_answer_seconds_count{code="Claimed"} 3.0',
        'waggle_claims_answer_seconds_sum{code="Claimed"} 0.207',
        'waggle_claims_answer_seconds_bucket{code="UnknownPool",le="0.001"} 1.0',
    ):
        assert line in text


def test_names_that_strangers_invent_take_no_memory() -> None:
    times = AnswerTimes(Clock())
    for number in range(100):
        times.add(PoolKey("x", f"p{number}"), ClaimCode.UNKNOWN_POOL, 0.001)
    assert times._slots == {}
