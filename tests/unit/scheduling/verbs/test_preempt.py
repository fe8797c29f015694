"""preempt names victims; who may be one, and what becomes of the preempting pod."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.interface import Bind, Preempt, Victim, Wait
from algorithm.reasons import Code, reason
from extender.scheduling.commands import RequeuePod
from extender.scheduling.events import PodGone
from extender.scheduling.policy import Limits
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.objects import node, pod

LIMITS = Limits()


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"), pod("low-a", cpu=4000, on="a"), pod("low-b", cpu=4000, on="b"))
    return engine


def high(name: str = "high", **more: object):
    return pod(name, cpu=3000, priority=100, **more)


def victims(answer) -> dict[str, tuple[str, ...]]:
    return {candidate.node: candidate.victims for candidate in answer.candidates}


def test_victims_are_answered_by_node_and_the_pod_is_preempting(engine: EngineHarness) -> None:
    p = high()
    assert victims(engine.preempt(p, "a", "b")) == {"a": ("uid-low-a",)}
    assert engine.state(p) == "Preempting"
    assert p.uid in engine.algorithm.preempting


def test_only_candidates_are_named(engine: EngineHarness) -> None:
    assert victims(engine.preempt(high(), "b")) == {"b": ("uid-low-b",)}


def test_filter_alone_does_not_preempt(engine: EngineHarness) -> None:
    p = high()
    answer = engine.filter(p, "a", "b")
    assert answer.reason is not None
    assert answer.reason.code is Code.PREEMPTIBLE
    assert engine.state(p) == "Waiting"


def test_no_second_victim_while_the_first_seems_to_go(engine: EngineHarness) -> None:
    """kube-scheduler has seen it go, and offers its node no more; our informer is behind."""
    p = high()
    engine.preempt(p, "a", "b")
    for _ in range(3):
        engine.now += 5
        assert victims(engine.preempt(p, "b")) == {}
        assert engine.state(p) == "Preempting"
    engine.handle(PodGone("default", "low-a", "uid-low-a"))
    assert engine.filter(p, "a", "b").node == "a"


def test_who_asked_before_our_informer_showed_the_victims_gone_is_nudged_then(engine: EngineHarness) -> None:
    p = high()
    engine.see(p)
    engine.preempt(p, "a", "b")
    assert engine.filter(p, "a", "b").node is None
    engine.now += 20
    engine.handle(PodGone("default", "low-a", "uid-low-a"))
    assert only(engine.tick(2), RequeuePod).uid == p.uid


def test_victims_that_do_not_go_are_planned_anew(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a", "b")
    engine.now += LIMITS.eviction_wait
    assert victims(engine.preempt(p, "b")) == {"b": ("uid-low-b",)}
    assert engine.state(p) == "Preempting"


def test_victims_are_planned_anew_where_their_node_is_offered_again(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a", "b")
    assert victims(engine.preempt(p, "a", "b")) == {"a": ("uid-low-a",)}


def test_when_the_victims_are_gone_the_pod_is_placed(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a", "b")
    engine.handle(PodGone("default", "low-a", "uid-low-a"))
    assert engine.filter(p, "a", "b").node == "a"
    assert engine.state(p) == "Binding"
    assert not engine.algorithm.preempting


def test_victims_that_are_gone_already_drop_out(engine: EngineHarness) -> None:
    gone = Victim("a", "uid-never-was")
    engine.algorithm.schedule = lambda *_: Preempt((gone, Victim("a", "uid-low-a")), reason(Code.OTHER, detail="x"))
    assert victims(engine.preempt(high(), "a")) == {"a": ("uid-low-a",)}


def test_no_victims_is_an_answer_too_others_of_the_gang_are_waited_for(engine: EngineHarness) -> None:
    p = high()
    engine.algorithm.schedule = lambda *_: Preempt((), reason(Code.WAITING_FOR_VICTIMS, victims="others"))
    assert victims(engine.preempt(p, "a")) == {}
    assert engine.state(p) == "Preempting"


def test_victims_may_be_on_several_nodes(engine: EngineHarness) -> None:
    both = (Victim("a", "uid-low-a"), Victim("b", "uid-low-b"))
    engine.algorithm.schedule = lambda *_: Preempt(both, reason(Code.OTHER, detail="x"))
    assert victims(engine.preempt(high(), "a", "b")) == {"a": ("uid-low-a",), "b": ("uid-low-b",)}


@pytest.mark.parametrize("priority", [100, 101])
def test_a_victim_of_the_same_or_higher_priority_spoils_the_whole_answer(engine: EngineHarness, priority: int) -> None:
    engine.see(pod("vip", cpu=0, on="a", priority=priority))
    named = (Victim("a", "uid-low-a"), Victim("a", "uid-vip"))
    engine.algorithm.schedule = lambda *_: Preempt(named, reason(Code.OTHER, detail="x"))
    p = high()
    answer = engine.preempt(p, "a")
    assert answer.candidates == ()
    assert answer.reason is not None
    assert answer.reason.code is Code.ALGORITHM_FAILED
    assert engine.state(p) == "Waiting"


def test_a_victim_named_on_the_wrong_node_spoils_the_whole_answer(engine: EngineHarness) -> None:
    engine.algorithm.schedule = lambda *_: Preempt((Victim("b", "uid-low-a"),), reason(Code.OTHER, detail="x"))
    assert engine.preempt(high(), "a", "b").candidates == ()


def test_a_pod_that_must_not_preempt_does_not(engine: EngineHarness) -> None:
    assert engine.preempt(high(may_preempt=False), "a", "b").candidates == ()


def test_a_pod_that_has_a_place_needs_no_victims(engine: EngineHarness) -> None:
    engine.see(node("c"))
    p = high()
    engine.filter(p, "c")
    answer = engine.preempt(p, "a", "b")
    assert answer.candidates == ()
    assert answer.reason is not None
    assert answer.reason.code is Code.ALREADY_PLACED


def test_a_place_that_was_not_offered_is_a_fault_here_as_for_filter(engine: EngineHarness) -> None:
    engine.see(node("c"))
    engine.algorithm.schedule = lambda *_: Bind("c")
    answer = engine.preempt(high(), "a", "b")
    assert answer.reason is not None
    assert (answer.error, answer.reason.code) == (True, Code.ALGORITHM_FAILED)
    assert "it chose node c, which was not offered" in answer.reason.text


def test_room_that_is_free_after_all_needs_no_victims(engine: EngineHarness) -> None:
    engine.see(node("c"))
    p = high()
    assert engine.preempt(p, "c").candidates == ()
    assert engine.state(p) == "Waiting"


def test_when_nothing_helps_any_more_it_waits_again(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a", "b")
    engine.now += LIMITS.eviction_wait
    assert engine.preempt(p, "never-seen").candidates == ()
    assert engine.state(p) == "Waiting"
    assert not engine.algorithm.preempting


def test_waiting_for_its_victims_it_goes_on_preempting(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a")
    engine.algorithm.schedule = lambda *_: Wait(reason(Code.WAITING_FOR_VICTIMS, victims="default/low-a"))
    engine.now += 50
    assert engine.filter(p, "b").node is None
    assert engine.preempt(p, "b").candidates == ()
    assert engine.state(p) == "Preempting"
    assert not engine.tick(50), "it was asked about, so it goes on"


def test_a_trial_does_not_cost_the_preemption(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a", "b")
    engine.see(pod("eq", cpu=4000, on="c", priority=100), node("c"))
    trial = msgspec.structs.replace(p, nominated_node_name="c")
    assert engine.filter(trial, "c").node is None
    assert engine.state(p) == "Preempting"


def test_a_preemption_that_nobody_asks_for_any_more_ends(engine: EngineHarness) -> None:
    p = high()
    engine.see(p)
    engine.preempt(p, "a", "b")
    engine.tick(61)
    assert engine.state(p) == "Waiting"
    assert not engine.algorithm.preempting


def test_a_preemption_lasts_as_long_as_its_victims_need_to_go(engine: EngineHarness) -> None:
    p = high()
    engine.see(p)
    engine.preempt(p, "a")
    engine.see(pod("low-a", cpu=4000, on="a", terminating=True))
    for _ in range(5):
        engine.tick(61)
    assert engine.state(p) == "Preempting"
    engine.handle(PodGone("default", "low-a", "uid-low-a"))
    engine.tick(61)
    assert engine.state(p) == "Waiting"


def test_a_deleted_preemptor_ends_its_preemption(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a")
    engine.handle(PodGone(p.namespace, p.name, p.uid))
    assert not engine.algorithm.preempting


def test_a_changed_preemptor_goes_on_preempting_with_its_new_record(engine: EngineHarness) -> None:
    p = high()
    engine.see(p)
    engine.preempt(p, "a")
    engine.see(high(labels=(("new", "label"),)))
    assert engine.state(p) == "Preempting"
    assert engine.algorithm.preempting[p.uid].labels


def test_the_algorithms_exception_changes_nothing(engine: EngineHarness) -> None:
    p = high()
    engine.preempt(p, "a")
    engine.algorithm.fail.add("schedule")
    assert engine.preempt(p, "a").candidates == ()
    assert engine.state(p) == "Preempting"
