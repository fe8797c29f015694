"""Pools whose pods a plug-in's function chooses."""

from __future__ import annotations

import pytest

from extender.claims.events import ClaimAsked
from extender.claims.records import Order, WarmPod
from extender.claims.scores import CANDIDATES, Score
from tests.unit.claims.test_claims import pods
from tests.unit.claims.world import World


def scored(score: Score, number: int = 4, **changes: object) -> World:
    cluster = World(score=score)
    for place in range(number):
        cluster.add(f"p{place}", labels={"size": str(place % 3)})
    cluster.start(cluster.pool(order=Order.SCORE, **changes))
    return cluster


def by_size(pod: WarmPod, asked: ClaimAsked) -> float:
    return float(pod.labels["size"]) * (-1.0 if asked.tenant == "small" else 1.0)


def test_the_pod_with_the_highest_score_is_taken_and_the_first_of_equals() -> None:
    cluster = scored(by_size)
    for request, tenant in (("1", ""), ("2", "small"), ("3", "small"), ("4", "")):
        cluster.ask(request, tenant=tenant)
        cluster.settle()
    assert [pods(cluster, request)[0] for request in "1234"] == ["p2", "p0", "p3", "p1"]


def test_a_gang_gets_the_best_ones() -> None:
    cluster = scored(by_size)
    cluster.ask("r", count=2)
    cluster.settle()
    assert pods(cluster, "r") == ["p2", "p1"]


def fails(_pod: WarmPod, _asked: ClaimAsked) -> float:
    raise ValueError("no such label")


def ends(_pod: WarmPod, _asked: ClaimAsked) -> float:
    raise SystemExit(3)


def gives_nothing(_pod: WarmPod, _asked: ClaimAsked) -> float:
    return float("nan")


@pytest.mark.parametrize(
    ("score", "why"),
    [(fails, "ValueError: no such label"), (ends, "SystemExit: 3"), (gives_nothing, "expected a finite")],
)
def test_a_function_that_fails_counts_as_nothing_and_is_counted(score: Score, why: str) -> None:
    cluster = scored(score)
    cluster.validates = False
    cluster.ask("r")
    cluster.settle()
    assert pods(cluster, "r") == ["p0"]
    assert cluster.engine.scores.failures == 4
    assert why in cluster.engine.scores.last_failure


def test_the_cost_does_not_grow_with_the_pool() -> None:
    calls = []

    def count(pod: WarmPod, _asked: ClaimAsked) -> float:
        calls.append(pod.name)
        return 1.0

    cluster = scored(count, 60)
    cluster.validates = False
    cluster.ask("r")
    assert len(calls) == CANDIDATES
    cluster.ask("s", count=20)
    assert len(calls) == CANDIDATES + 20
    cluster.settle()
    assert len(pods(cluster, "s")) == 20


def test_without_a_function_the_order_is_that_of_arrival() -> None:
    cluster = World()
    cluster.add("a")
    cluster.add("b")
    cluster.start(cluster.pool(order=Order.SCORE))
    cluster.ask("r")
    cluster.settle()
    assert pods(cluster, "r") == ["a"]
