"""Victims that do not go: the preemption ends, its room is anybody's, and they are nobody's victims any more."""

from __future__ import annotations

import random

import pytest

from algorithm.interface import Preempt, SchedulerAlgorithm, Victim
from algorithm.packing import PackingAlgorithm
from algorithm.reasons import Code, reason
from extender.scheduling.commands import RecordEvent, RequeuePod
from extender.scheduling.events import PodGone
from extender.scheduling.policy import Limits, Policy
from tests.support.heart import Heart
from tests.support.heart_world import BASE, NODES, HeartWorld
from tests.support.objects import node, pod
from tests.support.plain_algorithm import PlainAlgorithm

GRACE, PATIENCE = 30, 120
LIMIT = GRACE + PATIENCE


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), pod("low-a", cpu=4000, on="a"))
    return heart


def high(name: str = "high", **more: object):
    return pod(name, cpu=3000, priority=100, **more)


def deleted(heart: Heart, name: str = "low-a", on: str = "a", **more: object) -> None:
    """The API server has the deletion; a finalizer keeps the pod."""
    heart.see(pod(name, cpu=4000, on=on, terminating=True, **more))


def victims(answer) -> dict[str, tuple[str, ...]]:
    return {candidate.node: candidate.victims for candidate in answer.candidates}


def asked_until(heart: Heart, p, seconds: float, *nodes: str) -> None:
    """kube-scheduler asks again and again, as it does after every event."""
    end = heart.now + seconds
    while heart.now < end:
        heart.tick(min(20, end - heart.now))
        assert heart.filter(p, *nodes).node is None


def test_a_preemption_lasts_until_its_victims_should_be_gone_and_no_longer(heart: Heart) -> None:
    p = high()
    heart.see(p)
    heart.preempt(p, "a")
    deleted(heart)
    asked_until(heart, p, LIMIT - 1, "a")
    assert heart.state(p) == "Preempting"
    heart.now += 1
    out = heart.filter_all(p, "a")
    assert heart.state(p) == "Waiting"
    assert not heart.algorithm.preempting
    told = [item for item in out if isinstance(item, RecordEvent)]
    assert [(item.name, item.reason.text) for item in told] == [("high", "evicted pods are not going: default/low-a")]
    entry = heart.lifecycle.find("default", "high")
    assert entry is not None
    assert entry.reason is not None
    assert entry.reason.code is Code.VICTIM_STAYS


def test_kube_scheduler_asking_only_preempt_renews_it_no_longer_either(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a")
    deleted(heart)
    heart.now += LIMIT
    answer = heart.preempt(p, "a")
    assert answer.candidates == ()
    assert heart.state(p) == "Waiting"


def test_others_may_be_preempted_then(heart: Heart) -> None:
    p = high()
    heart.see(p)
    heart.preempt(p, "a")
    deleted(heart)
    heart.see(node("b"), pod("low-b", cpu=4000, on="b"))
    heart.now += LIMIT
    answer = heart.filter(p, "a", "b")
    assert answer.reason is not None
    assert answer.reason.code is Code.PREEMPTIBLE
    assert victims(heart.preempt(p, "a", "b")) == {"b": ("uid-low-b",)}


def test_who_waits_for_the_room_is_tried_again(heart: Heart) -> None:
    p, other = high(), pod("other", cpu=3000, priority=100)
    heart.see(p, other)
    heart.filter(other, "a")
    heart.preempt(p, "a")
    deleted(heart)
    asked_until(heart, p, LIMIT - 1, "a")
    heart.now += 1
    out = heart.filter_all(p, "a")
    assert "other" in [item.name for item in out if isinstance(item, RequeuePod)]


def test_another_preemptor_does_not_begin_the_time_anew(heart: Heart) -> None:
    heart.preempt(high("first"), "a")
    deleted(heart)
    heart.filter(high("first"), "a")
    heart.now += LIMIT - 10
    second = high("second")
    assert victims(heart.preempt(second, "a")) == {"a": ("uid-low-a",)}
    heart.now += 10
    assert victims(heart.preempt(second, "a")) == {}
    assert heart.state(second) == "Waiting"
    assert victims(heart.preempt(high("third"), "a")) == {}


def test_a_victim_that_somebody_deletes_later_gets_its_time_then(heart: Heart) -> None:
    first, second = high("first"), high("second")
    heart.see(first)
    heart.preempt(first, "a")
    heart.handle(PodGone("default", "first", "uid-first"))
    heart.now += LIMIT + 1
    deleted(heart)
    assert victims(heart.preempt(second, "a")) == {"a": ("uid-low-a",)}
    heart.now += LIMIT - 1
    heart.filter(second, "a")
    assert heart.state(second) == "Preempting"


def test_a_victim_that_nobody_has_deleted_gets_its_time_with_the_next_preemptor(heart: Heart) -> None:
    first, second = high("first"), high("second")
    heart.see(first)
    heart.preempt(first, "a")
    heart.handle(PodGone("default", "first", "uid-first"))
    heart.now += LIMIT
    assert victims(heart.preempt(second, "a")) == {"a": ("uid-low-a",)}
    heart.now += 1
    heart.filter(second, "a")
    assert heart.state(second) == "Preempting"


def test_a_victim_that_nobody_deletes_may_be_named_again_after_as_long(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a")
    heart.now += LIMIT
    assert victims(heart.preempt(p, "a")) == {}
    heart.now += LIMIT
    assert victims(heart.preempt(p, "a")) == {"a": ("uid-low-a",)}


def test_of_a_grace_period_an_hour_counts(heart: Heart) -> None:
    heart.see(node("b"), pod("slow", cpu=4000, on="b", grace_period=10**9))
    p = high()
    heart.preempt(p, "b")
    deleted(heart, "slow", "b", grace_period=10**9)
    heart.now += Limits().most_grace + PATIENCE - 1
    heart.filter(p, "b")
    assert heart.state(p) == "Preempting"
    heart.now += 1
    heart.filter(p, "b")
    assert heart.state(p) == "Waiting"


def test_an_algorithm_that_names_it_all_the_same_reserves_nothing(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a")
    deleted(heart)
    heart.now += LIMIT
    heart.filter(p, "a")
    heart.algorithm.schedule = lambda *_: Preempt((Victim("a", "uid-low-a"),), reason(Code.OTHER, detail="x"), "a")
    answer = heart.preempt(p, "a")
    assert answer.candidates == ()
    assert answer.reason is not None
    assert answer.reason.code is Code.VICTIM_STAYS
    assert heart.state(p) == "Waiting"


def test_it_is_forgotten_once_it_is_gone(heart: Heart) -> None:
    p = high()
    heart.see(p)
    heart.preempt(p, "a")
    deleted(heart)
    heart.now += LIMIT
    heart.filter(p, "a")
    assert heart.algorithm.lingering == {"uid-low-a"}
    heart.handle(PodGone("default", "low-a", "uid-low-a"))
    assert heart.filter(p, "a").node == "a"
    heart.see(pod("low-a2", cpu=4000, on="a"))
    heart.filter(high("next"), "a")
    assert heart.algorithm.lingering == frozenset()


@pytest.mark.parametrize("make", [PlainAlgorithm, PackingAlgorithm])
@pytest.mark.parametrize("seed", range(4))
def test_in_random_runs_nobody_keeps_room_for_pods_that_never_go(make: type[SchedulerAlgorithm], seed: int) -> None:
    """What is checked after every question is in `HeartWorld`."""
    world = HeartWorld(Policy(**BASE, patience=5.0), make=make)
    rng, lingered = random.Random(f"lingering {seed}"), 0
    for _ in range(250):
        for name, where in zip("abc", NODES, strict=True):
            world.pod_created(name, 4000, 0, "ours")
            world.somebody_else_binds(name, where)
        for name in "de":
            world.pod_created(name, rng.choice((2000, 4000)), 10, "ours")
        world.deliver_all()
        name, nodes = rng.choice("de"), rng.sample(NODES, rng.randint(1, 3))
        world.filtered(name, nodes, stale=False, trial=False, bind=True)
        world.preempt_asked(name, nodes)
        if rng.random() < 0.2:
            world.pod_changed(rng.choice("abc"), "terminating")
        if rng.random() < 0.05:
            world.pod_deleted(rng.choice("abcdedede"))
        while world.work:
            world.work_is_done(0, "none")
        world.time_passes(rng.choice((0.5, 2.0)))
        lingered += bool(world.heart.executor.lingering.uids)
    assert lingered, "no victim ever lingered"
