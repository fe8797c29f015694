"""Terms: who is not the leader decides nothing and writes nothing, and holds nothing of the time when it was."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RequeuePod, WriteBinding
from extender.scheduling.events import BindAnswer, Synced, TermBegan, TermEnded
from extender.scheduling.policy import PreemptionMode
from tests.support.engine.harness import EngineHarness, error_of, only
from tests.support.engine.objects import node, pod

VERSIONED = replace(node("a"), resource_version="3"), replace(node("b"), resource_version="2")


def elected(term: int = 1, **policy: object) -> EngineHarness:
    engine = EngineHarness(elected=True, **policy)
    engine.see(node("a"), node("b"))
    engine.handle(TermBegan(term))
    return engine


def test_without_an_election_there_is_one_eternal_term() -> None:
    engine = EngineHarness()
    engine.see(node("a"))
    p = pod("p")
    engine.filter(p, "a")
    assert only(engine.bind(p, "a"), WriteBinding).term == 0


@pytest.mark.parametrize("events", [[], [Synced()], [TermBegan(1)], [Synced(), TermBegan(1), TermEnded(1)]])
def test_outside_of_a_synced_term_every_verb_is_refused(events: list) -> None:
    engine = EngineHarness(synced=False, elected=True)
    engine.see(node("a"))
    for event in events:
        engine.handle(event)
    p = pod("p")
    assert engine.filter(p, "a").error
    assert engine.filter(p, "a").reason.code == "NotReady"
    assert engine.preempt(p, "a").reason.code == "NotReady"
    assert error_of(engine.bind(p, "a")) == "NotReady"
    assert engine.prioritize(p, ["a"]) == {}
    assert engine.machine.missing()


def test_what_is_written_carries_the_term() -> None:
    engine = elected(7)
    p = pod("p")
    engine.filter(p, "a")
    assert only(engine.bind(p, "a"), WriteBinding).term == 7


def test_events_for_people_and_nudges_carry_the_term() -> None:
    engine = elected(7)
    p, q = pod("p", cpu=4000), pod("q", cpu=4000)
    engine.see(p, q)
    engine.filter(p, "a")
    engine.filter(q, "a")
    write = only(engine.bind(p, "a"), WriteBinding)
    out = engine.finish(write.token, OutcomeKind.REJECTED, "no")
    assert {item.term for item in out if isinstance(item, RecordEvent | RequeuePod)} == {7}
    assert only(out, RecordEvent)


def test_evictions_carry_the_term() -> None:
    engine = elected(3, preemption=PreemptionMode.DIRECT)
    engine.see(pod("low", cpu=4000, on="a"), pod("low2", cpu=4000, on="b"))
    high = pod("high", cpu=4000, priority=9)
    engine.see(high)
    out = engine.filter_all(high, "a", "b")
    assert {item.term for item in out if isinstance(item, Evict)} == {3}


def test_a_proposal_does_not_survive_its_term() -> None:
    engine = elected()
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    engine.handle(TermEnded(1))
    assert engine.state(p) == "Waiting"
    assert engine.machine.state.cache.counts().assumed == 0
    engine.handle(TermBegan(2))
    assert error_of(engine.bind(p, "a")) == "NeverProposed"


def test_a_preemption_does_not_survive_its_term() -> None:
    engine = elected()
    engine.see(pod("low", cpu=4000, on="a"), pod("low2", cpu=4000, on="b"))
    p = pod("high", cpu=4000, priority=9)
    engine.see(p)
    engine.filter(p, "a", "b")
    engine.preempt(p, "a", "b")
    assert engine.state(p) == "Preempting"
    engine.handle(TermEnded(1))
    assert engine.state(p) == "Waiting"


def in_flight(engine: EngineHarness) -> tuple:
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    write = only(engine.bind(p, "a"), WriteBinding)
    engine.handle(TermEnded(1))
    assert engine.state(p) == "Binding"
    return p, write


def test_a_write_in_flight_is_followed_to_its_end() -> None:
    engine = elected()
    p, write = in_flight(engine)
    assert only(engine.finish(write.token, OutcomeKind.DONE), BindAnswer).error is None
    engine.see(pod("p", on="a"))
    assert engine.state(p) == "Bound"


def test_a_write_that_never_left_leaves_nothing_behind() -> None:
    engine = elected()
    p, write = in_flight(engine)
    assert error_of(engine.finish(write.token, OutcomeKind.THROTTLED)) == "BindThrottled"
    assert engine.state(p) == "Waiting"


@pytest.mark.parametrize("next_term", [False, True])
def test_a_write_of_unknown_end_is_read_back_and_its_place_not_kept(next_term: bool) -> None:
    engine = elected()
    p, write = in_flight(engine)
    if next_term:
        engine.handle(TermBegan(2))
    read = only(engine.finish(write.token, OutcomeKind.UNKNOWN), ReadPod)
    assert error_of(engine.read(read.token, p)) == "BindUnknown"
    assert engine.state(p) == "Waiting"


def test_a_write_whose_end_was_unknown_before_is_not_insisted_on_in_another_term() -> None:
    engine = elected()
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    read = only(engine.finish(only(engine.bind(p, "a"), WriteBinding).token, OutcomeKind.UNKNOWN), ReadPod)
    engine.read(read.token, p)
    assert engine.state(p) == "Binding"
    engine.handle(TermEnded(1))
    assert engine.state(p) == "Waiting"


def test_a_write_of_unknown_end_that_did_arrive_is_found() -> None:
    engine = elected()
    p, write = in_flight(engine)
    read = only(engine.finish(write.token, OutcomeKind.UNKNOWN), ReadPod)
    assert error_of(engine.read(read.token, pod("p", on="a"))) is None
    assert engine.state(p) == "Bound"


def test_a_follower_keeps_its_books() -> None:
    engine = EngineHarness(elected=True)
    engine.see(node("a"), pod("p", on="a"), pod("q"))
    assert engine.state(pod("p")) == "Bound"
    assert engine.state(pod("q")) == "Waiting"


def test_a_follower_nudges_nobody_and_waits_for_no_time() -> None:
    engine = EngineHarness(elected=True)
    p = pod("p")
    engine.see(node("a"), pod("low", cpu=4000, on="a"), p)
    engine.see(pod("low", cpu=4000, on="a", phase="Succeeded"))
    assert not engine.tick(3600)
    assert engine.machine.next_due() is None


def test_whoever_waits_is_nudged_when_a_term_begins() -> None:
    engine = EngineHarness(elected=True)
    engine.see(node("a"), pod("p"), pod("q", priority=5))
    out = engine.handle(TermBegan(1))
    assert [(item.name, item.term) for item in out if isinstance(item, RequeuePod)] == [("q", 1), ("p", 1)]


def test_terms_do_not_go_back_and_an_old_end_ends_nothing() -> None:
    engine = elected(5)
    engine.handle(TermEnded(4))
    assert engine.machine.term == 5
    engine.handle(TermEnded(5))
    engine.handle(TermEnded(5))
    for old in (4, 5):
        engine.handle(TermBegan(old))
        assert engine.machine.term is None


def test_a_new_term_ends_the_one_before() -> None:
    engine = elected(5)
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    engine.handle(TermBegan(6))
    assert engine.state(p) == "Waiting"
    assert engine.machine.term == 6


def test_a_pod_of_others_has_to_pass_filter_again_in_a_new_term() -> None:
    engine = elected(scheduler_names=frozenset({"ours"}))
    p = pod("p")
    assert engine.filter(p, "a").pass_through
    engine.handle(TermEnded(1))
    engine.handle(TermBegan(2))
    assert error_of(engine.bind(p, "a")) == "NeverProposed"


def test_what_the_next_leader_has_to_know_is_the_newest_of_what_was_shown() -> None:
    engine = elected()
    engine.see(*VERSIONED)
    engine.see(pod("old", on="a", version=7), pod("new", on="b", version=12), pod("waits", version=9))
    engine.handle(TermEnded(1))
    known = engine.machine.known()
    assert known == {"nodes": "3", "pods": "12"}


def test_of_a_write_that_the_informer_has_not_shown_nothing_can_be_said() -> None:
    engine = elected()
    engine.see(*VERSIONED)
    p = pod("p", version=5)
    engine.see(p)
    engine.filter(p, "a")
    write = only(engine.bind(p, "a"), WriteBinding)
    engine.handle(TermEnded(1))
    assert engine.machine.known() is None
    engine.finish(write.token, OutcomeKind.DONE)
    assert engine.machine.known() is None
    engine.see(pod("p", on="a", version=8))
    assert engine.machine.known() == {"nodes": "3", "pods": "8"}


def test_versions_that_are_no_numbers_say_nothing() -> None:
    engine = elected()
    engine.see(*VERSIONED, pod("p", on="a", version="x"))
    assert engine.machine.known() is None
