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
from tests.support.engine.harness import EngineHarness
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.engine.simulation import BASE, NODES, EngineSimulation

GRACE, PATIENCE = 30, 120
LIMIT = GRACE + PATIENCE


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), pod("low-a", cpu=4000, on="a"))
    return engine


def high(name: str = "high", **more: object):
    return pod(name, cpu=3000, priority=100, **more)


def deleted(engine: EngineHarness, name: str = "low-a", on: str = "a", **more: object) -> None:
    """The API server has the deletion; a finalizer keeps the pod."""
    engine.see(pod(name, cpu=4000, on=on, terminating=True, **more))


def victims(answer) -> dict[str, tuple[str, ...]]:
    return {candidate.node: candidate.victims for candidate in answer.candidates}


def asked_until(engine: EngineHarness, p, seconds: float, *nodes: str) -> None:
    """kube-scheduler asks again and again, as it does after every event."""
    end = engine.now + seconds
    while engine.now < end:
        engine.tick(min(20, end - engine.now))
        assert engine.filter(p, *nodes).node is None


def test_a_preemption_lasts_until_its_victims_should_be_gone_and_no_longer(engine: EngineHarness) -> None:
    p = high()
    engine.see(p)
    engine.preempt(p, "a")
    deleted(engine)
    asked_until(engine, p, LIMIT - 1, "a")
    assert engine.state(p) == "Preempting"
    engine.now += 1
    out = engine.filter_all(p, "a")
    assert engine.state(p) == "Waiting"
    assert not engine.algorithm.preempting
    told = [item for item in out if isinstance(item, RecordEvent)]
    assert [(item.name, item.reason.text) for item in told] == [("high", "evicted pods are not going: default/low-a")]
    pod_info = engine.machine.find("default", "high")
    assert pod_info is not None
    assert pod_info.reason is not None
    assert pod_info.reason.code is Code.VICTIM_STAYS


def test_kube_scheduler_asking_only_preempt_renews_it_no_longer_either(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a")
    deleted(engine)
    engine.now += LIMIT
    answer = engine.preempt(p, "a")
    assert answer.candidates == ()
    assert engine.state(p) == "Waiting"


def test_others_may_be_preempted_then(engine: EngineHarness) -> None:
    p = high()
    engine.see(p)
    engine.preempt(p, "a")
    deleted(engine)
    engine.see(node("b"), pod("low-b", cpu=4000, on="b"))
    engine.now += LIMIT
    answer = engine.filter(p, "a", "b")
    assert answer.reason is not None
    assert answer.reason.code is Code.PREEMPTIBLE
    assert victims(engine.preempt(p, "a", "b")) == {"b": ("uid-low-b",)}


def test_who_waits_for_the_room_is_tried_again(engine: EngineHarness) -> None:
    p, other = high(), pod("other", cpu=3000, priority=100)
    engine.see(p, other)
    engine.filter(other, "a")
    engine.preempt(p, "a")
    deleted(engine)
    asked_until(engine, p, LIMIT - 1, "a")
    engine.now += 1
    out = engine.filter_all(p, "a")
    assert "other" in [item.name for item in out if isinstance(item, RequeuePod)]


def test_another_preemptor_does_not_begin_the_time_anew(engine: EngineHarness) -> None:
    engine.preempt(high("first"), "a")
    deleted(engine)
    engine.filter(high("first"), "a")
    engine.now += LIMIT - 10
    second = high("second")
    assert victims(engine.preempt(second, "a")) == {"a": ("uid-low-a",)}
    engine.now += 10
    assert victims(engine.preempt(second, "a")) == {}
    assert engine.state(second) == "Waiting"
    assert victims(engine.preempt(high("third"), "a")) == {}


def test_a_victim_that_somebody_deletes_later_gets_its_time_then(engine: EngineHarness) -> None:
    first, second = high("first"), high("second")
    engine.see(first)
    engine.preempt(first, "a")
    engine.handle(PodGone("default", "first", "uid-first"))
    engine.now += LIMIT + 1
    deleted(engine)
    assert victims(engine.preempt(second, "a")) == {"a": ("uid-low-a",)}
    engine.now += LIMIT - 1
    engine.filter(second, "a")
    assert engine.state(second) == "Preempting"


def test_a_victim_that_nobody_has_deleted_gets_its_time_with_the_next_preemptor(engine: EngineHarness) -> None:
    first, second = high("first"), high("second")
    engine.see(first)
    engine.preempt(first, "a")
    engine.handle(PodGone("default", "first", "uid-first"))
    engine.now += LIMIT
    assert victims(engine.preempt(second, "a")) == {"a": ("uid-low-a",)}
    engine.now += 1
    engine.filter(second, "a")
    assert engine.state(second) == "Preempting"


def test_a_victim_that_nobody_deletes_may_be_named_again_after_as_long(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a")
    engine.now += LIMIT
    assert victims(engine.preempt(p, "a")) == {}
    engine.now += LIMIT
    assert victims(engine.preempt(p, "a")) == {"a": ("uid-low-a",)}


def test_of_a_grace_period_an_hour_counts(engine: EngineHarness) -> None:
    engine.see(node("b"), pod("slow", cpu=4000, on="b", grace_period=10**9))
    p = high()
    engine.preempt(p, "b")
    deleted(engine, "slow", "b", grace_period=10**9)
    engine.now += Limits().most_grace + PATIENCE - 1
    engine.filter(p, "b")
    assert engine.state(p) == "Preempting"
    engine.now += 1
    engine.filter(p, "b")
    assert engine.state(p) == "Waiting"


def test_an_algorithm_that_names_it_all_the_same_reserves_nothing(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a")
    deleted(engine)
    engine.now += LIMIT
    engine.filter(p, "a")
    engine.algorithm.schedule = lambda *_: Preempt((Victim("a", "uid-low-a"),), reason(Code.OTHER, detail="x"), "a")
    answer = engine.preempt(p, "a")
    assert answer.candidates == ()
    assert answer.reason is not None
    assert answer.reason.code is Code.VICTIM_STAYS
    assert engine.state(p) == "Waiting"


def test_it_is_forgotten_once_it_is_gone(engine: EngineHarness) -> None:
    p = high()
    engine.see(p)
    engine.preempt(p, "a")
    deleted(engine)
    engine.now += LIMIT
    engine.filter(p, "a")
    assert engine.algorithm.lingering == {"uid-low-a"}
    engine.handle(PodGone("default", "low-a", "uid-low-a"))
    assert engine.filter(p, "a").node == "a"
    engine.see(pod("low-a2", cpu=4000, on="a"))
    engine.filter(high("next"), "a")
    assert engine.algorithm.lingering == frozenset()


@pytest.mark.parametrize("make", [PlainAlgorithm, PackingAlgorithm])
@pytest.mark.parametrize("seed", range(4))
def test_in_random_runs_nobody_keeps_room_for_pods_that_never_go(make: type[SchedulerAlgorithm], seed: int) -> None:
    """What is checked after every question is in `EngineSimulation`."""
    world = EngineSimulation(Policy(**BASE, patience=5.0), make=make)
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
        lingered += bool(world.machine.executor.lingering.uids)
    assert lingered, "no victim ever lingered"
