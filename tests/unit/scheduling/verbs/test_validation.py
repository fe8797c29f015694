"""Callers that are wrong, late, or ask for what cannot be: an answer, and nothing is damaged."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.reasons import Code
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import PodRead, ReadPod, WriteBinding
from extender.scheduling.events import FilterAnswer
from extender.scheduling.policy import PreemptionMode
from tests.support.engine.harness import EngineHarness, error_of, only
from tests.support.engine.objects import node, pod


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def code(answer) -> Code | None:
    return answer.reason.code if answer.reason else None


def test_one_uid_under_two_names_is_refused(engine: EngineHarness) -> None:
    engine.filter(pod("p", cpu=9000), "a")
    answer = engine.filter(pod("q", uid="uid-p"), "a")
    assert (answer.error, code(answer)) == (True, Code.BAD_REQUEST)
    assert engine.preempt(pod("q", uid="uid-p"), "a").error


def test_the_informers_one_uid_under_two_names_is_left_out_and_counted(engine: EngineHarness) -> None:
    engine.see(pod("p"), pod("q", uid="uid-p"))
    assert engine.machine.find("default", "q") is None
    assert engine.machine.counts["anomalies", "uid_of_another_name"] == 1


def test_a_pod_that_has_a_node_already_is_not_placed(engine: EngineHarness) -> None:
    assert code(engine.filter(pod("p", on="b"), "a")) is Code.ALREADY_BOUND
    assert code(engine.preempt(pod("p", on="b"), "a")) is Code.ALREADY_PLACED


def test_a_finished_pod_is_told_so_by_both_verbs(engine: EngineHarness) -> None:
    p = pod("p", phase="Failed")
    assert code(engine.filter(p, "a")) is code(engine.preempt(p, "a")) is Code.POD_FINISHED


def test_before_synced_preempt_is_an_error() -> None:
    assert EngineHarness(synced=False).preempt(pod("p"), "a").error


def test_a_name_whose_first_pods_proposal_had_expired_takes_an_older_pod(engine: EngineHarness) -> None:
    """An expired record must not outlive its pod: the cache would call the other one late."""
    first = pod("p", uid="first", version=500)
    engine.filter(first, "a")
    engine.read(only(engine.tick(61), ReadPod).token, first)
    second = pod("p", uid="second", version=400)
    assert engine.filter(second, "a").node == "a"


def test_a_bound_pod_that_the_informer_never_showed_is_let_go_when_it_is_gone(engine: EngineHarness) -> None:
    p = pod("p", cpu=4000)
    engine.filter(p, "a")
    token = only(engine.bind(p, "a"), WriteBinding).token
    read = only(engine.finish(token, OutcomeKind.UNKNOWN), ReadPod)
    engine.read(read.token, pod("p", cpu=4000, on="a"))
    assert engine.state(p) == "Bound"
    again = only(engine.tick(61), ReadPod)
    engine.read(again.token, None)
    assert engine.state(p) == "Unknown"
    assert engine.algorithm.free("a") == 4000


def test_once_the_informer_shows_a_bound_pod_it_is_no_longer_verified(engine: EngineHarness) -> None:
    p = pod("p")
    engine.filter(p, "a")
    token = only(engine.bind(p, "a"), WriteBinding).token
    read = only(engine.finish(token, OutcomeKind.UNKNOWN), ReadPod)
    bound = pod("p", on="a")
    engine.read(read.token, bound)
    engine.see(bound)
    assert not engine.tick(1000)


def test_what_an_earlier_read_saw_is_not_taken_for_what_is_true_now(engine: EngineHarness) -> None:
    """An expiry's read is under way; then a bind is refused with 409 since an earlier try of ours had arrived."""
    p = pod("p")
    engine.filter(p, "a")
    early = only(engine.tick(61), ReadPod)
    token = only(engine.bind(p, "a"), WriteBinding).token
    late = only(engine.finish(token, OutcomeKind.LOST, "already assigned"), ReadPod)
    assert engine.handle(PodRead(early.token, Outcome(OutcomeKind.DONE), p)) == []
    assert engine.state(p) == "Binding"
    assert error_of(engine.read(late.token, pod("p", on="a"))) is None


def test_a_place_whose_write_may_yet_arrive_is_insisted_on_until_that_is_verified(engine: EngineHarness) -> None:
    p = pod("p", cpu=4000)
    engine.filter(p, "a")
    read = only(engine.finish(only(engine.bind(p, "a"), WriteBinding).token, OutcomeKind.UNKNOWN), ReadPod)
    engine.read(read.token, p)
    assert code(engine.filter(p, "b")) is Code.BIND_IN_FLIGHT
    assert engine.algorithm.free("a") == 0
    engine.read(only(engine.tick(61), ReadPod).token, p)
    assert engine.filter(p, "b").node == "b"


def test_a_uid_that_a_caller_gave_a_wrong_name_does_not_hide_the_pod(engine: EngineHarness) -> None:
    engine.filter(pod("wrong", uid="uid-p", cpu=9000), "a")
    engine.see(pod("p"))
    assert engine.machine.find("default", "p") is not None
    assert engine.machine.find("default", "wrong") is None


def test_a_wrong_name_that_is_verified_first_does_not_bury_the_uid(engine: EngineHarness) -> None:
    engine.filter(pod("wrong", uid="uid-p", cpu=9000), "a")
    engine.read(only(engine.tick(61), ReadPod).token, None)
    p = pod("p")
    engine.see(p)
    assert engine.state(p) == "Waiting"


@pytest.mark.parametrize("how", [{"gated": True}, {"terminating": True}])
def test_an_older_record_does_not_bring_back_a_pod_that_does_not_wait(
    engine: EngineHarness, how: dict[str, bool]
) -> None:
    old, new = pod("p"), pod("p", **how)
    engine.see(old, new, old)
    assert engine.state(new) == "Unknown"


def test_a_pod_that_is_being_deleted_is_not_placed_by_an_older_record(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    token = only(engine.bind(p, "a"), WriteBinding).token
    engine.see(pod("p", terminating=True))
    assert code(engine.filter(p, "a")) is Code.POD_TERMINATING
    engine.finish(token, OutcomeKind.THROTTLED)
    assert engine.state(p) == "Unknown"


def test_a_callers_newer_record_does_not_make_the_informers_word_late(engine: EngineHarness) -> None:
    engine.filter(pod("p", version=10**9, cpu=9000), "a")
    engine.see(pod("p", gated=True))
    assert not engine.algorithm.unallocated


def test_an_older_pod_of_the_same_name_does_not_end_a_bind_in_flight(engine: EngineHarness) -> None:
    """A StatefulSet's pod was replaced, and our informer is behind by a whole life."""
    young, old = pod("p", uid="young", version=50, cpu=4000), pod("p", uid="old", version=40)
    engine.filter(young, "a")
    engine.bind(young, "a")
    engine.see(old)
    assert engine.state(young) == "Binding"
    assert engine.algorithm.free("a") == 0


def test_if_the_bind_finds_that_the_younger_pod_never_was_the_older_one_counts(engine: EngineHarness) -> None:
    lie, real = pod("p", uid="lie", version=50, cpu=500), pod("p", uid="real", version=40, cpu=3000, on="a")
    engine.filter(lie, "a")
    token = only(engine.bind(lie, "a"), WriteBinding).token
    engine.see(real)
    assert error_of(engine.finish(token, OutcomeKind.STALE)) == Code.BIND_STALE
    assert engine.state(real) == "Bound"
    assert engine.algorithm.free("a") == 1000


def test_a_read_that_finds_another_pod_of_that_name_tells_of_it(engine: EngineHarness) -> None:
    engine.filter(pod("p", uid="claimed", cpu=9000), "a")
    real = pod("p", uid="real", cpu=3000, on="a")
    engine.read(only(engine.tick(61), ReadPod).token, real)
    assert engine.algorithm.free("a") == 1000


def test_a_report_that_never_comes_does_not_keep_callers_waiting_for_ever(engine: EngineHarness) -> None:
    p = pod("p")
    engine.filter(p, "a")
    engine.bind(p, "a")
    only(engine.tick(61), ReadPod)
    assert error_of(engine.tick(61)) == Code.BIND_UNKNOWN


def test_the_only_node_refused_twice_in_a_row_is_no_trial(engine: EngineHarness) -> None:
    """After the trial with the nominated node the full list follows, and that may have no other node."""
    engine.see(pod("old", cpu=4000, on="b"))
    p = msgspec.structs.replace(pod("p", cpu=3000), nominated_node_name="b")
    engine.filter(p, "a")
    assert code(engine.filter(p, "b")) is Code.PLACED_ELSEWHERE
    assert code(engine.filter(p, "b")) is Code.NO_NODE_FITS
    assert engine.state(p) == "Waiting"
    assert engine.algorithm.free("a") == 4000


def test_a_trial_forces_no_bind() -> None:
    engine = EngineHarness(force_bind_unoffered=True)
    engine.see(node("a"), node("b"))
    engine.algorithm.choose = "a"
    p = msgspec.structs.replace(pod("p"), nominated_node_name="b")
    assert [type(x) for x in engine.filter_all(p, "b")] == [FilterAnswer]
    assert engine.filter(p, "a", "b").node == "a"


def test_filters_without_a_bind_are_counted_across_places() -> None:
    engine = EngineHarness(force_bind_after=2)
    engine.see(node("a"), node("b"))
    p = pod("p")
    engine.see(p)
    assert [len(engine.filter_all(p, name)) for name in ("a", "b", "a")] == [1, 1, 2]


class TestOthersPods:
    """Pods that are none of ours, bound through us."""

    def engine(self) -> EngineHarness:
        engine = EngineHarness(scheduler_names=frozenset({"waggle"}))
        engine.see(node("a"), node("b"))
        return engine

    def test_after_a_failed_bind_kube_scheduler_may_choose_another_node(self) -> None:
        engine, p = self.engine(), pod("p")
        assert engine.filter(p, "a", "b").pass_through
        engine.finish(only(engine.bind(p, "a"), WriteBinding).token, OutcomeKind.THROTTLED)
        assert engine.filter(p, "a", "b").pass_through
        assert only(engine.bind(p, "b"), WriteBinding).node == "b"
        assert (engine.algorithm.free("a"), engine.algorithm.free("b")) == (4000, 3000)

    def test_while_the_write_is_in_flight_another_node_is_refused(self) -> None:
        engine, p = self.engine(), pod("p")
        engine.filter(p, "a", "b")
        engine.bind(p, "a")
        engine.filter(p, "a", "b")
        assert error_of(engine.bind(p, "b")) == Code.PROPOSED_OTHER_NODE

    def test_a_failed_bind_leaves_nothing_behind(self) -> None:
        engine, p = self.engine(), pod("p")
        engine.filter(p, "a")
        engine.finish(only(engine.bind(p, "a"), WriteBinding).token, OutcomeKind.REJECTED, "forbidden")
        assert engine.state(p) == "Unknown"
        assert engine.algorithm.free("a") == 4000


class TestEvictions:
    def engine(self) -> EngineHarness:
        engine = EngineHarness(preemption=PreemptionMode.DIRECT)
        engine.see(node("a"), pod("low", cpu=4000, on="a"))
        return engine

    def test_a_pod_that_only_a_caller_has_spoken_of_evicts_nobody(self) -> None:
        engine = self.engine()
        assert [type(x) for x in engine.filter_all(pod("ghost", cpu=4000, priority=9), "a")] == [FilterAnswer]
