"""Terms: who is not the leader decides nothing and writes nothing, and holds nothing of the time when it was."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RequeuePod, WriteBinding
from extender.scheduling.events import BindAnswer, Synced, TermBegan, TermEnded
from extender.scheduling.policy import PreemptionMode
from tests.support.heart import Heart, error_of, only
from tests.support.objects import node, pod

VERSIONED = replace(node("a"), resource_version="3"), replace(node("b"), resource_version="2")


def elected(term: int = 1, **policy: object) -> Heart:
    heart = Heart(elected=True, **policy)
    heart.see(node("a"), node("b"))
    heart.handle(TermBegan(term))
    return heart


def test_without_an_election_there_is_one_eternal_term() -> None:
    heart = Heart()
    heart.see(node("a"))
    p = pod("p")
    heart.filter(p, "a")
    assert only(heart.bind(p, "a"), WriteBinding).term == 0


@pytest.mark.parametrize("events", [[], [Synced()], [TermBegan(1)], [Synced(), TermBegan(1), TermEnded(1)]])
def test_outside_of_a_synced_term_every_verb_is_refused(events: list) -> None:
    heart = Heart(synced=False, elected=True)
    heart.see(node("a"))
    for event in events:
        heart.handle(event)
    p = pod("p")
    assert heart.filter(p, "a").error
    assert heart.filter(p, "a").reason.code == "NotReady"
    assert heart.preempt(p, "a").reason.code == "NotReady"
    assert error_of(heart.bind(p, "a")) == "NotReady"
    assert heart.prioritize(p, ["a"]) == {}
    assert heart.lifecycle.missing()


def test_what_is_written_carries_the_term() -> None:
    heart = elected(7)
    p = pod("p")
    heart.filter(p, "a")
    assert only(heart.bind(p, "a"), WriteBinding).term == 7


def test_events_for_people_and_nudges_carry_the_term() -> None:
    heart = elected(7)
    p, q = pod("p", cpu=4000), pod("q", cpu=4000)
    heart.see(p, q)
    heart.filter(p, "a")
    heart.filter(q, "a")
    write = only(heart.bind(p, "a"), WriteBinding)
    out = heart.finish(write.token, OutcomeKind.REJECTED, "no")
    assert {item.term for item in out if isinstance(item, RecordEvent | RequeuePod)} == {7}
    assert only(out, RecordEvent)


def test_evictions_carry_the_term() -> None:
    heart = elected(3, preemption=PreemptionMode.DIRECT)
    heart.see(pod("low", cpu=4000, on="a"), pod("low2", cpu=4000, on="b"))
    high = pod("high", cpu=4000, priority=9)
    heart.see(high)
    out = heart.filter_all(high, "a", "b")
    assert {item.term for item in out if isinstance(item, Evict)} == {3}


def test_a_proposal_does_not_survive_its_term() -> None:
    heart = elected()
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    heart.handle(TermEnded(1))
    assert heart.state(p) == "Waiting"
    assert heart.lifecycle.state.cache.counts().assumed == 0
    heart.handle(TermBegan(2))
    assert error_of(heart.bind(p, "a")) == "NeverProposed"


def test_a_preemption_does_not_survive_its_term() -> None:
    heart = elected()
    heart.see(pod("low", cpu=4000, on="a"), pod("low2", cpu=4000, on="b"))
    p = pod("high", cpu=4000, priority=9)
    heart.see(p)
    heart.filter(p, "a", "b")
    heart.preempt(p, "a", "b")
    assert heart.state(p) == "Preempting"
    heart.handle(TermEnded(1))
    assert heart.state(p) == "Waiting"


def in_flight(heart: Heart) -> tuple:
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    write = only(heart.bind(p, "a"), WriteBinding)
    heart.handle(TermEnded(1))
    assert heart.state(p) == "Binding"
    return p, write


def test_a_write_in_flight_is_followed_to_its_end() -> None:
    heart = elected()
    p, write = in_flight(heart)
    assert only(heart.finish(write.token, OutcomeKind.DONE), BindAnswer).error is None
    heart.see(pod("p", on="a"))
    assert heart.state(p) == "Bound"


def test_a_write_that_never_left_leaves_nothing_behind() -> None:
    heart = elected()
    p, write = in_flight(heart)
    assert error_of(heart.finish(write.token, OutcomeKind.THROTTLED)) == "BindThrottled"
    assert heart.state(p) == "Waiting"


@pytest.mark.parametrize("next_term", [False, True])
def test_a_write_of_unknown_end_is_read_back_and_its_place_not_kept(next_term: bool) -> None:
    heart = elected()
    p, write = in_flight(heart)
    if next_term:
        heart.handle(TermBegan(2))
    read = only(heart.finish(write.token, OutcomeKind.UNKNOWN), ReadPod)
    assert error_of(heart.read(read.token, p)) == "BindUnknown"
    assert heart.state(p) == "Waiting"


def test_a_write_whose_end_was_unknown_before_is_not_insisted_on_in_another_term() -> None:
    heart = elected()
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    read = only(heart.finish(only(heart.bind(p, "a"), WriteBinding).token, OutcomeKind.UNKNOWN), ReadPod)
    heart.read(read.token, p)
    assert heart.state(p) == "Binding"
    heart.handle(TermEnded(1))
    assert heart.state(p) == "Waiting"


def test_a_write_of_unknown_end_that_did_arrive_is_found() -> None:
    heart = elected()
    p, write = in_flight(heart)
    read = only(heart.finish(write.token, OutcomeKind.UNKNOWN), ReadPod)
    assert error_of(heart.read(read.token, pod("p", on="a"))) is None
    assert heart.state(p) == "Bound"


def test_a_follower_keeps_its_books() -> None:
    heart = Heart(elected=True)
    heart.see(node("a"), pod("p", on="a"), pod("q"))
    assert heart.state(pod("p")) == "Bound"
    assert heart.state(pod("q")) == "Waiting"


def test_a_follower_nudges_nobody_and_waits_for_no_time() -> None:
    heart = Heart(elected=True)
    p = pod("p")
    heart.see(node("a"), pod("low", cpu=4000, on="a"), p)
    heart.see(pod("low", cpu=4000, on="a", phase="Succeeded"))
    assert not heart.tick(3600)
    assert heart.lifecycle.next_due() is None


def test_whoever_waits_is_nudged_when_a_term_begins() -> None:
    heart = Heart(elected=True)
    heart.see(node("a"), pod("p"), pod("q", priority=5))
    out = heart.handle(TermBegan(1))
    assert [(item.name, item.term) for item in out if isinstance(item, RequeuePod)] == [("q", 1), ("p", 1)]


def test_terms_do_not_go_back_and_an_old_end_ends_nothing() -> None:
    heart = elected(5)
    heart.handle(TermEnded(4))
    assert heart.lifecycle.term == 5
    heart.handle(TermEnded(5))
    heart.handle(TermEnded(5))
    for old in (4, 5):
        heart.handle(TermBegan(old))
        assert heart.lifecycle.term is None


def test_a_new_term_ends_the_one_before() -> None:
    heart = elected(5)
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    heart.handle(TermBegan(6))
    assert heart.state(p) == "Waiting"
    assert heart.lifecycle.term == 6


def test_a_pod_of_others_has_to_pass_filter_again_in_a_new_term() -> None:
    heart = elected(scheduler_names=frozenset({"ours"}))
    p = pod("p")
    assert heart.filter(p, "a").pass_through
    heart.handle(TermEnded(1))
    heart.handle(TermBegan(2))
    assert error_of(heart.bind(p, "a")) == "NeverProposed"


def test_what_the_next_leader_has_to_know_is_the_newest_of_what_was_shown() -> None:
    heart = elected()
    heart.see(*VERSIONED)
    heart.see(pod("old", on="a", version=7), pod("new", on="b", version=12), pod("waits", version=9))
    heart.handle(TermEnded(1))
    known = heart.lifecycle.known()
    assert known == {"nodes": "3", "pods": "12"}


def test_of_a_write_that_the_informer_has_not_shown_nothing_can_be_said() -> None:
    heart = elected()
    heart.see(*VERSIONED)
    p = pod("p", version=5)
    heart.see(p)
    heart.filter(p, "a")
    write = only(heart.bind(p, "a"), WriteBinding)
    heart.handle(TermEnded(1))
    assert heart.lifecycle.known() is None
    heart.finish(write.token, OutcomeKind.DONE)
    assert heart.lifecycle.known() is None
    heart.see(pod("p", on="a", version=8))
    assert heart.lifecycle.known() == {"nodes": "3", "pods": "8"}


def test_versions_that_are_no_numbers_say_nothing() -> None:
    heart = elected()
    heart.see(*VERSIONED, pod("p", on="a", version="x"))
    assert heart.lifecycle.known() is None
