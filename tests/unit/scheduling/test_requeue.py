"""No wake-up is lost: who is made to try again, when, and how often at most."""

from __future__ import annotations

import msgspec
import pytest

from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import ReadPod, RequeuePod, WriteBinding
from extender.scheduling.events import NodeGone, PodGone
from tests.support.heart import Heart, only
from tests.support.objects import node, pod


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), node("b"))
    return heart


def nudged(instructions) -> list[str]:
    return [item.name for item in instructions if isinstance(item, RequeuePod)]


def full(heart: Heart, name: str, on: str):
    p = pod(name, cpu=4000, on=on)
    heart.see(p)
    return p


def refused(heart: Heart, name: str, *nodes: str, cpu: int = 4000):
    p = pod(name, cpu=cpu)
    heart.see(p)
    assert heart.filter(p, *nodes).node is None
    return p


def test_a_refusal_by_what_our_informer_had_not_seen_yet_is_made_good(heart: Heart) -> None:
    old = full(heart, "old", "a")
    refused(heart, "w", "a")
    heart.now += 0.2
    heart.handle(PodGone(old.namespace, old.name, old.uid))
    assert heart.lifecycle.next_due() == heart.now + 1.0
    assert nudged(heart.tick(1.0)) == ["w"]


def test_who_was_asked_about_since_is_not_nudged(heart: Heart) -> None:
    old = full(heart, "old", "a")
    p = refused(heart, "w", "a")
    heart.handle(PodGone(old.namespace, old.name, old.uid))
    heart.now += 0.1
    assert heart.filter(p, "a").node == "a"
    assert nudged(heart.tick(1.0)) == []


def test_who_was_refused_long_before_is_left_to_kube_scheduler(heart: Heart) -> None:
    old = full(heart, "old", "a")
    refused(heart, "w", "a")
    heart.now += 30
    heart.handle(PodGone(old.namespace, old.name, old.uid))
    assert nudged(heart.tick(1.0)) == []


def test_a_node_that_kube_scheduler_knew_before_us_is_made_good(heart: Heart) -> None:
    refused(heart, "w", "late")
    heart.see(node("late"))
    assert nudged(heart.tick(1.0)) == ["w"]


def test_a_heartbeat_of_a_node_wakes_nobody_and_is_not_told(heart: Heart) -> None:
    refused(heart, "w", "a", cpu=9000)
    before = heart.algorithm.nodes["a"]
    heart.see(msgspec.structs.replace(node("a"), resource_version="77"))
    assert heart.lifecycle.next_due() is None
    assert heart.algorithm.nodes["a"] is before


def test_room_given_up_for_another_node_wakes_who_waits_for_it(heart: Heart) -> None:
    p = pod("p", cpu=3000)
    heart.filter(p, "a")
    refused(heart, "w", "a", cpu=3000)
    out = heart.filter_all(p, "b")
    assert nudged(out) == ["w"]


def test_room_given_up_for_nothing_wakes_the_others_but_not_oneself(heart: Heart) -> None:
    full(heart, "old", "b")
    p = pod("p", cpu=3000)
    heart.see(p)
    heart.filter(p, "a")
    refused(heart, "w", "a", cpu=3000)
    assert nudged(heart.filter_all(p, "b")) == ["w"]
    other = pod("other", cpu=3000)
    heart.filter(other, "a")
    assert nudged(heart.handle(PodGone(other.namespace, other.name, other.uid))) == ["p"], "it waits like any other"


def test_the_end_of_a_preemption_wakes_whom_its_claim_kept_out(heart: Heart) -> None:
    heart.see(pod("low", cpu=4000, on="a"))
    high = pod("high", cpu=4000, priority=9)
    heart.see(high)
    heart.preempt(high, "a")
    refused(heart, "w", "a")
    assert nudged(heart.handle(PodGone(high.namespace, high.name, high.uid))) == ["w"]


def test_batches_are_paced(heart: Heart) -> None:
    heart = Heart(requeue_batch=2)
    heart.see(node("a"))
    taker = pod("t", cpu=4000)
    heart.filter(taker, "a")
    for name in ("u", "v", "w"):
        refused(heart, name, "a")
    assert nudged(heart.handle(PodGone(taker.namespace, taker.name, taker.uid))) == ["u", "v"]
    assert nudged(heart.tick(0.5)) == []
    assert heart.lifecycle.next_due() == heart.now + 0.5
    assert nudged(heart.tick(0.5)) == ["w"]


def test_a_forced_bind_that_fails_brings_the_pod_back(heart: Heart) -> None:
    heart = Heart(force_bind_unoffered=True)
    heart.see(node("a"), node("b"))
    heart.algorithm.choose = "a"
    p = pod("p")
    heart.see(p)
    write = only(heart.filter_all(p, "b"), WriteBinding)
    assert write.node == "a"
    assert nudged(heart.finish(write.token, OutcomeKind.REJECTED, "forbidden")) == ["p"]


def test_a_forced_bind_that_is_throttled_brings_the_pod_back(heart: Heart) -> None:
    heart = Heart(force_bind_unoffered=True)
    heart.see(node("a"), node("b"))
    heart.algorithm.choose = "a"
    p = pod("p")
    heart.see(p)
    write = only(heart.filter_all(p, "b"), WriteBinding)
    heart.finish(write.token, OutcomeKind.THROTTLED)
    assert nudged(heart.tick(0)) == ["p"]


def test_a_deleted_node_frees_what_was_proposed_on_it(heart: Heart) -> None:
    p = pod("p", cpu=3000)
    heart.filter(p, "a")
    refused(heart, "w", "a", cpu=3000)
    assert nudged(heart.handle(NodeGone("a"))) == ["w"]


def test_expired_holds_are_shown_once_in_a_row(heart: Heart) -> None:
    from extender.scheduling.commands import RecordEvent

    p = pod("p")
    heart.see(p)
    shown = []
    for _ in range(3):
        heart.filter(p, "a")
        shown += [x for x in heart.read(only(heart.tick(61), ReadPod).token, p) if isinstance(x, RecordEvent)]
    assert [(item.reason.code, item.warning) for item in shown] == [("HoldExpired", False)]
