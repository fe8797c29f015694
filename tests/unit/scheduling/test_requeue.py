"""No wake-up is lost: who is made to try again, when, and how often at most."""

from __future__ import annotations

import msgspec
import pytest

from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import ReadPod, RequeuePod, WriteBinding
from extender.scheduling.events import NodeGone, PodGone
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.objects import node, pod


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def nudged(instructions) -> list[str]:
    return [item.name for item in instructions if isinstance(item, RequeuePod)]


def full(engine: EngineHarness, name: str, on: str):
    p = pod(name, cpu=4000, on=on)
    engine.see(p)
    return p


def refused(engine: EngineHarness, name: str, *nodes: str, cpu: int = 4000):
    p = pod(name, cpu=cpu)
    engine.see(p)
    assert engine.filter(p, *nodes).node is None
    return p


def test_a_refusal_by_what_our_informer_had_not_seen_yet_is_made_good(engine: EngineHarness) -> None:
    old = full(engine, "old", "a")
    refused(engine, "w", "a")
    engine.now += 0.2
    engine.handle(PodGone(old.namespace, old.name, old.uid))
    assert engine.machine.next_due() == engine.now + 1.0
    assert nudged(engine.tick(1.0)) == ["w"]


def test_who_was_asked_about_since_is_not_nudged(engine: EngineHarness) -> None:
    old = full(engine, "old", "a")
    p = refused(engine, "w", "a")
    engine.handle(PodGone(old.namespace, old.name, old.uid))
    engine.now += 0.1
    assert engine.filter(p, "a").node == "a"
    assert nudged(engine.tick(1.0)) == []


def test_who_was_refused_long_before_is_left_to_kube_scheduler(engine: EngineHarness) -> None:
    old = full(engine, "old", "a")
    refused(engine, "w", "a")
    engine.now += 30
    engine.handle(PodGone(old.namespace, old.name, old.uid))
    assert nudged(engine.tick(1.0)) == []


def test_a_node_that_kube_scheduler_knew_before_us_is_made_good(engine: EngineHarness) -> None:
    refused(engine, "w", "late")
    engine.see(node("late"))
    assert nudged(engine.tick(1.0)) == ["w"]


def test_a_heartbeat_of_a_node_wakes_nobody_and_is_not_told(engine: EngineHarness) -> None:
    refused(engine, "w", "a", cpu=9000)
    before = engine.algorithm.nodes["a"]
    engine.see(msgspec.structs.replace(node("a"), resource_version="77"))
    assert engine.machine.next_due() is None
    assert engine.algorithm.nodes["a"] is before


def test_room_given_up_for_another_node_wakes_who_waits_for_it(engine: EngineHarness) -> None:
    p = pod("p", cpu=3000)
    engine.filter(p, "a")
    refused(engine, "w", "a", cpu=3000)
    out = engine.filter_all(p, "b")
    assert nudged(out) == ["w"]


def test_room_given_up_for_nothing_wakes_the_others_but_not_oneself(engine: EngineHarness) -> None:
    full(engine, "old", "b")
    p = pod("p", cpu=3000)
    engine.see(p)
    engine.filter(p, "a")
    refused(engine, "w", "a", cpu=3000)
    assert nudged(engine.filter_all(p, "b")) == ["w"]
    other = pod("other", cpu=3000)
    engine.filter(other, "a")
    assert nudged(engine.handle(PodGone(other.namespace, other.name, other.uid))) == ["p"], "it waits like any other"


def test_the_end_of_a_preemption_wakes_whom_its_claim_kept_out(engine: EngineHarness) -> None:
    engine.see(pod("low", cpu=4000, on="a"))
    high = pod("high", cpu=4000, priority=9)
    engine.see(high)
    engine.preempt(high, "a")
    refused(engine, "w", "a")
    assert nudged(engine.handle(PodGone(high.namespace, high.name, high.uid))) == ["w"]


def test_batches_are_paced(engine: EngineHarness) -> None:
    engine = EngineHarness(requeue_batch=2)
    engine.see(node("a"))
    taker = pod("t", cpu=4000)
    engine.filter(taker, "a")
    for name in ("u", "v", "w"):
        refused(engine, name, "a")
    assert nudged(engine.handle(PodGone(taker.namespace, taker.name, taker.uid))) == ["u", "v"]
    assert nudged(engine.tick(0.5)) == []
    assert engine.machine.next_due() == engine.now + 0.5
    assert nudged(engine.tick(0.5)) == ["w"]


def test_a_forced_bind_that_fails_brings_the_pod_back(engine: EngineHarness) -> None:
    engine = EngineHarness(force_bind_unoffered=True)
    engine.see(node("a"), node("b"))
    engine.algorithm.choose = "a"
    p = pod("p")
    engine.see(p)
    write = only(engine.filter_all(p, "b"), WriteBinding)
    assert write.node == "a"
    assert nudged(engine.finish(write.token, OutcomeKind.REJECTED, "forbidden")) == ["p"]


def test_a_forced_bind_that_is_throttled_brings_the_pod_back(engine: EngineHarness) -> None:
    engine = EngineHarness(force_bind_unoffered=True)
    engine.see(node("a"), node("b"))
    engine.algorithm.choose = "a"
    p = pod("p")
    engine.see(p)
    write = only(engine.filter_all(p, "b"), WriteBinding)
    engine.finish(write.token, OutcomeKind.THROTTLED)
    assert nudged(engine.tick(0)) == ["p"]


def test_a_deleted_node_frees_what_was_proposed_on_it(engine: EngineHarness) -> None:
    p = pod("p", cpu=3000)
    engine.filter(p, "a")
    refused(engine, "w", "a", cpu=3000)
    assert nudged(engine.handle(NodeGone("a"))) == ["w"]


def test_expired_holds_are_shown_once_in_a_row(engine: EngineHarness) -> None:
    from extender.scheduling.commands import RecordEvent

    p = pod("p")
    engine.see(p)
    shown = []
    for _ in range(3):
        engine.filter(p, "a")
        shown += [x for x in engine.read(only(engine.tick(61), ReadPod).token, p) if isinstance(x, RecordEvent)]
    assert [(item.reason.code, item.warning) for item in shown] == [("HoldExpired", False)]
