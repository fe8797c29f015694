"""preempt names victims; who may be one, and what becomes of the preempting pod."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.interface import Preempt, Victim, Wait
from algorithm.reasons import Code, reason
from extender.scheduling.commands import RequeuePod
from extender.scheduling.events import PodGone
from extender.scheduling.policy import Limits
from tests.support.heart import Heart, only
from tests.support.objects import node, pod

LIMITS = Limits()


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), node("b"), pod("low-a", cpu=4000, on="a"), pod("low-b", cpu=4000, on="b"))
    return heart


def high(name: str = "high", **more: object):
    return pod(name, cpu=3000, priority=100, **more)


def victims(answer) -> dict[str, tuple[str, ...]]:
    return {candidate.node: candidate.victims for candidate in answer.candidates}


def test_victims_are_answered_by_node_and_the_pod_is_preempting(heart: Heart) -> None:
    p = high()
    assert victims(heart.preempt(p, "a", "b")) == {"a": ("uid-low-a",)}
    assert heart.state(p) == "Preempting"
    assert p.uid in heart.algorithm.preempting


def test_only_candidates_are_named(heart: Heart) -> None:
    assert victims(heart.preempt(high(), "b")) == {"b": ("uid-low-b",)}


def test_filter_alone_does_not_preempt(heart: Heart) -> None:
    p = high()
    answer = heart.filter(p, "a", "b")
    assert answer.reason is not None
    assert answer.reason.code is Code.PREEMPTIBLE
    assert heart.state(p) == "Waiting"


def test_no_second_victim_while_the_first_seems_to_go(heart: Heart) -> None:
    """kube-scheduler has seen it go, and offers its node no more; our informer is behind."""
    p = high()
    heart.preempt(p, "a", "b")
    for _ in range(3):
        heart.now += 5
        assert victims(heart.preempt(p, "b")) == {}
        assert heart.state(p) == "Preempting"
    heart.handle(PodGone("default", "low-a", "uid-low-a"))
    assert heart.filter(p, "a", "b").node == "a"


def test_who_asked_before_our_informer_showed_the_victims_gone_is_nudged_then(heart: Heart) -> None:
    p = high()
    heart.see(p)
    heart.preempt(p, "a", "b")
    assert heart.filter(p, "a", "b").node is None
    heart.now += 20
    heart.handle(PodGone("default", "low-a", "uid-low-a"))
    assert only(heart.tick(2), RequeuePod).uid == p.uid


def test_victims_that_do_not_go_are_planned_anew(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a", "b")
    heart.now += LIMITS.eviction_wait
    assert victims(heart.preempt(p, "b")) == {"b": ("uid-low-b",)}
    assert heart.state(p) == "Preempting"


def test_victims_are_planned_anew_where_their_node_is_offered_again(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a", "b")
    assert victims(heart.preempt(p, "a", "b")) == {"a": ("uid-low-a",)}


def test_when_the_victims_are_gone_the_pod_is_placed(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a", "b")
    heart.handle(PodGone("default", "low-a", "uid-low-a"))
    assert heart.filter(p, "a", "b").node == "a"
    assert heart.state(p) == "Binding"
    assert not heart.algorithm.preempting


def test_victims_that_are_gone_already_drop_out(heart: Heart) -> None:
    gone = Victim("a", "uid-never-was")
    heart.algorithm.schedule = lambda *_: Preempt((gone, Victim("a", "uid-low-a")), reason(Code.OTHER, detail="x"))
    assert victims(heart.preempt(high(), "a")) == {"a": ("uid-low-a",)}


def test_no_victims_is_an_answer_too_others_of_the_gang_are_waited_for(heart: Heart) -> None:
    p = high()
    heart.algorithm.schedule = lambda *_: Preempt((), reason(Code.WAITING_FOR_VICTIMS, victims="others"))
    assert victims(heart.preempt(p, "a")) == {}
    assert heart.state(p) == "Preempting"


def test_victims_may_be_on_several_nodes(heart: Heart) -> None:
    both = (Victim("a", "uid-low-a"), Victim("b", "uid-low-b"))
    heart.algorithm.schedule = lambda *_: Preempt(both, reason(Code.OTHER, detail="x"))
    assert victims(heart.preempt(high(), "a", "b")) == {"a": ("uid-low-a",), "b": ("uid-low-b",)}


@pytest.mark.parametrize("priority", [100, 101])
def test_a_victim_of_the_same_or_higher_priority_spoils_the_whole_answer(heart: Heart, priority: int) -> None:
    heart.see(pod("vip", cpu=0, on="a", priority=priority))
    named = (Victim("a", "uid-low-a"), Victim("a", "uid-vip"))
    heart.algorithm.schedule = lambda *_: Preempt(named, reason(Code.OTHER, detail="x"))
    p = high()
    answer = heart.preempt(p, "a")
    assert answer.candidates == ()
    assert answer.reason is not None
    assert answer.reason.code is Code.ALGORITHM_FAILED
    assert heart.state(p) == "Waiting"


def test_a_victim_named_on_the_wrong_node_spoils_the_whole_answer(heart: Heart) -> None:
    heart.algorithm.schedule = lambda *_: Preempt((Victim("b", "uid-low-a"),), reason(Code.OTHER, detail="x"))
    assert heart.preempt(high(), "a", "b").candidates == ()


def test_a_pod_that_must_not_preempt_does_not(heart: Heart) -> None:
    assert heart.preempt(high(may_preempt=False), "a", "b").candidates == ()


def test_a_pod_that_has_a_place_needs_no_victims(heart: Heart) -> None:
    heart.see(node("c"))
    p = high()
    heart.filter(p, "c")
    answer = heart.preempt(p, "a", "b")
    assert answer.candidates == ()
    assert answer.reason is not None
    assert answer.reason.code is Code.ALREADY_PLACED


def test_room_that_is_free_after_all_needs_no_victims(heart: Heart) -> None:
    heart.see(node("c"))
    p = high()
    assert heart.preempt(p, "c").candidates == ()
    assert heart.state(p) == "Waiting"


def test_when_nothing_helps_any_more_it_waits_again(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a", "b")
    heart.now += LIMITS.eviction_wait
    assert heart.preempt(p, "never-seen").candidates == ()
    assert heart.state(p) == "Waiting"
    assert not heart.algorithm.preempting


def test_waiting_for_its_victims_it_goes_on_preempting(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a")
    heart.algorithm.schedule = lambda *_: Wait(reason(Code.WAITING_FOR_VICTIMS, victims="default/low-a"))
    heart.now += 50
    assert heart.filter(p, "b").node is None
    assert heart.preempt(p, "b").candidates == ()
    assert heart.state(p) == "Preempting"
    assert not heart.tick(50), "it was asked about, so it goes on"


def test_a_trial_does_not_cost_the_preemption(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a", "b")
    heart.see(pod("eq", cpu=4000, on="c", priority=100), node("c"))
    trial = msgspec.structs.replace(p, nominated_node_name="c")
    assert heart.filter(trial, "c").node is None
    assert heart.state(p) == "Preempting"


def test_a_preemption_that_nobody_asks_for_any_more_ends(heart: Heart) -> None:
    p = high()
    heart.see(p)
    heart.preempt(p, "a", "b")
    heart.tick(61)
    assert heart.state(p) == "Waiting"
    assert not heart.algorithm.preempting


def test_a_preemption_lasts_as_long_as_its_victims_need_to_go(heart: Heart) -> None:
    p = high()
    heart.see(p)
    heart.preempt(p, "a")
    heart.see(pod("low-a", cpu=4000, on="a", terminating=True))
    for _ in range(5):
        heart.tick(61)
    assert heart.state(p) == "Preempting"
    heart.handle(PodGone("default", "low-a", "uid-low-a"))
    heart.tick(61)
    assert heart.state(p) == "Waiting"


def test_a_deleted_preemptor_ends_its_preemption(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a")
    heart.handle(PodGone(p.namespace, p.name, p.uid))
    assert not heart.algorithm.preempting


def test_a_changed_preemptor_goes_on_preempting_with_its_new_record(heart: Heart) -> None:
    p = high()
    heart.see(p)
    heart.preempt(p, "a")
    heart.see(high(labels=(("new", "label"),)))
    assert heart.state(p) == "Preempting"
    assert heart.algorithm.preempting[p.uid].labels


def test_the_algorithms_exception_changes_nothing(heart: Heart) -> None:
    p = high()
    heart.preempt(p, "a")
    heart.algorithm.fail.add("schedule")
    assert heart.preempt(p, "a").candidates == ()
    assert heart.state(p) == "Preempting"
