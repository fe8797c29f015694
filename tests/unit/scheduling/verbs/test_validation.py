"""Callers that are wrong, late, or ask for what cannot be: an answer, and nothing is damaged."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.reasons import Code
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import PodRead, ReadPod, WriteBinding
from extender.scheduling.events import FilterAnswer
from extender.scheduling.policy import PreemptionMode
from tests.support.heart import Heart, error_of, only
from tests.support.objects import node, pod


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), node("b"))
    return heart


def code(answer) -> Code | None:
    return answer.reason.code if answer.reason else None


def test_one_uid_under_two_names_is_refused(heart: Heart) -> None:
    heart.filter(pod("p", cpu=9000), "a")
    answer = heart.filter(pod("q", uid="uid-p"), "a")
    assert (answer.error, code(answer)) == (True, Code.BAD_REQUEST)
    assert heart.preempt(pod("q", uid="uid-p"), "a").error


def test_the_informers_one_uid_under_two_names_is_left_out_and_counted(heart: Heart) -> None:
    heart.see(pod("p"), pod("q", uid="uid-p"))
    assert heart.lifecycle.find("default", "q") is None
    assert heart.lifecycle.counts["anomalies", "uid_of_another_name"] == 1


def test_a_pod_that_has_a_node_already_is_not_placed(heart: Heart) -> None:
    assert code(heart.filter(pod("p", on="b"), "a")) is Code.ALREADY_BOUND
    assert code(heart.preempt(pod("p", on="b"), "a")) is Code.ALREADY_PLACED


def test_a_finished_pod_is_told_so_by_both_verbs(heart: Heart) -> None:
    p = pod("p", phase="Failed")
    assert code(heart.filter(p, "a")) is code(heart.preempt(p, "a")) is Code.POD_FINISHED


def test_before_synced_preempt_is_an_error() -> None:
    assert Heart(synced=False).preempt(pod("p"), "a").error


def test_a_name_whose_first_pods_proposal_had_expired_takes_an_older_pod(heart: Heart) -> None:
    """An expired record must not outlive its pod: the cache would call the other one late."""
    first = pod("p", uid="first", version=500)
    heart.filter(first, "a")
    heart.read(only(heart.tick(61), ReadPod).token, first)
    second = pod("p", uid="second", version=400)
    assert heart.filter(second, "a").node == "a"


def test_a_bound_pod_that_the_informer_never_showed_is_let_go_when_it_is_gone(heart: Heart) -> None:
    p = pod("p", cpu=4000)
    heart.filter(p, "a")
    token = only(heart.bind(p, "a"), WriteBinding).token
    read = only(heart.finish(token, OutcomeKind.UNKNOWN), ReadPod)
    heart.read(read.token, pod("p", cpu=4000, on="a"))
    assert heart.state(p) == "Bound"
    again = only(heart.tick(61), ReadPod)
    heart.read(again.token, None)
    assert heart.state(p) == "Unknown"
    assert heart.algorithm.free("a") == 4000


def test_once_the_informer_shows_a_bound_pod_it_is_no_longer_verified(heart: Heart) -> None:
    p = pod("p")
    heart.filter(p, "a")
    token = only(heart.bind(p, "a"), WriteBinding).token
    read = only(heart.finish(token, OutcomeKind.UNKNOWN), ReadPod)
    bound = pod("p", on="a")
    heart.read(read.token, bound)
    heart.see(bound)
    assert not heart.tick(1000)


def test_what_an_earlier_read_saw_is_not_taken_for_what_is_true_now(heart: Heart) -> None:
    """An expiry's read is under way; then a bind is refused with 409 since an earlier try of ours had arrived."""
    p = pod("p")
    heart.filter(p, "a")
    early = only(heart.tick(61), ReadPod)
    token = only(heart.bind(p, "a"), WriteBinding).token
    late = only(heart.finish(token, OutcomeKind.LOST, "already assigned"), ReadPod)
    assert heart.handle(PodRead(early.token, Outcome(OutcomeKind.DONE), p)) == []
    assert heart.state(p) == "Binding"
    assert error_of(heart.read(late.token, pod("p", on="a"))) is None


def test_a_place_whose_write_may_yet_arrive_is_insisted_on_until_that_is_verified(heart: Heart) -> None:
    p = pod("p", cpu=4000)
    heart.filter(p, "a")
    read = only(heart.finish(only(heart.bind(p, "a"), WriteBinding).token, OutcomeKind.UNKNOWN), ReadPod)
    heart.read(read.token, p)
    assert code(heart.filter(p, "b")) is Code.BIND_IN_FLIGHT
    assert heart.algorithm.free("a") == 0
    heart.read(only(heart.tick(61), ReadPod).token, p)
    assert heart.filter(p, "b").node == "b"


def test_a_uid_that_a_caller_gave_a_wrong_name_does_not_hide_the_pod(heart: Heart) -> None:
    heart.filter(pod("wrong", uid="uid-p", cpu=9000), "a")
    heart.see(pod("p"))
    assert heart.lifecycle.find("default", "p") is not None
    assert heart.lifecycle.find("default", "wrong") is None


def test_a_wrong_name_that_is_verified_first_does_not_bury_the_uid(heart: Heart) -> None:
    heart.filter(pod("wrong", uid="uid-p", cpu=9000), "a")
    heart.read(only(heart.tick(61), ReadPod).token, None)
    p = pod("p")
    heart.see(p)
    assert heart.state(p) == "Waiting"


@pytest.mark.parametrize("how", [{"gated": True}, {"terminating": True}])
def test_an_older_record_does_not_bring_back_a_pod_that_does_not_wait(heart: Heart, how: dict[str, bool]) -> None:
    old, new = pod("p"), pod("p", **how)
    heart.see(old, new, old)
    assert heart.state(new) == "Unknown"


def test_a_pod_that_is_being_deleted_is_not_placed_by_an_older_record(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    token = only(heart.bind(p, "a"), WriteBinding).token
    heart.see(pod("p", terminating=True))
    assert code(heart.filter(p, "a")) is Code.POD_TERMINATING
    heart.finish(token, OutcomeKind.THROTTLED)
    assert heart.state(p) == "Unknown"


def test_a_callers_newer_record_does_not_make_the_informers_word_late(heart: Heart) -> None:
    heart.filter(pod("p", version=10**9, cpu=9000), "a")
    heart.see(pod("p", gated=True))
    assert not heart.algorithm.unallocated


def test_an_older_pod_of_the_same_name_does_not_end_a_bind_in_flight(heart: Heart) -> None:
    """A StatefulSet's pod was replaced, and our informer is behind by a whole life."""
    young, old = pod("p", uid="young", version=50, cpu=4000), pod("p", uid="old", version=40)
    heart.filter(young, "a")
    heart.bind(young, "a")
    heart.see(old)
    assert heart.state(young) == "Binding"
    assert heart.algorithm.free("a") == 0


def test_if_the_bind_finds_that_the_younger_pod_never_was_the_older_one_counts(heart: Heart) -> None:
    lie, real = pod("p", uid="lie", version=50, cpu=500), pod("p", uid="real", version=40, cpu=3000, on="a")
    heart.filter(lie, "a")
    token = only(heart.bind(lie, "a"), WriteBinding).token
    heart.see(real)
    assert error_of(heart.finish(token, OutcomeKind.STALE)) == Code.BIND_STALE
    assert heart.state(real) == "Bound"
    assert heart.algorithm.free("a") == 1000


def test_a_read_that_finds_another_pod_of_that_name_tells_of_it(heart: Heart) -> None:
    heart.filter(pod("p", uid="claimed", cpu=9000), "a")
    real = pod("p", uid="real", cpu=3000, on="a")
    heart.read(only(heart.tick(61), ReadPod).token, real)
    assert heart.algorithm.free("a") == 1000


def test_a_report_that_never_comes_does_not_keep_callers_waiting_for_ever(heart: Heart) -> None:
    p = pod("p")
    heart.filter(p, "a")
    heart.bind(p, "a")
    only(heart.tick(61), ReadPod)
    assert error_of(heart.tick(61)) == Code.BIND_UNKNOWN


def test_the_only_node_refused_twice_in_a_row_is_no_trial(heart: Heart) -> None:
    """After the trial with the nominated node the full list follows, and that may have no other node."""
    heart.see(pod("old", cpu=4000, on="b"))
    p = msgspec.structs.replace(pod("p", cpu=3000), nominated_node_name="b")
    heart.filter(p, "a")
    assert code(heart.filter(p, "b")) is Code.PLACED_ELSEWHERE
    assert code(heart.filter(p, "b")) is Code.NO_NODE_FITS
    assert heart.state(p) == "Waiting"
    assert heart.algorithm.free("a") == 4000


def test_a_trial_forces_no_bind() -> None:
    heart = Heart(force_bind_unoffered=True)
    heart.see(node("a"), node("b"))
    heart.algorithm.choose = "a"
    p = msgspec.structs.replace(pod("p"), nominated_node_name="b")
    assert [type(x) for x in heart.filter_all(p, "b")] == [FilterAnswer]
    assert heart.filter(p, "a", "b").node == "a"


def test_filters_without_a_bind_are_counted_across_places() -> None:
    heart = Heart(force_bind_after=2)
    heart.see(node("a"), node("b"))
    p = pod("p")
    heart.see(p)
    assert [len(heart.filter_all(p, name)) for name in ("a", "b", "a")] == [1, 1, 2]


class TestOthersPods:
    """Pods that are none of ours, bound through us."""

    def heart(self) -> Heart:
        heart = Heart(scheduler_names=frozenset({"waggle"}))
        heart.see(node("a"), node("b"))
        return heart

    def test_after_a_failed_bind_kube_scheduler_may_choose_another_node(self) -> None:
        heart, p = self.heart(), pod("p")
        assert heart.filter(p, "a", "b").pass_through
        heart.finish(only(heart.bind(p, "a"), WriteBinding).token, OutcomeKind.THROTTLED)
        assert heart.filter(p, "a", "b").pass_through
        assert only(heart.bind(p, "b"), WriteBinding).node == "b"
        assert (heart.algorithm.free("a"), heart.algorithm.free("b")) == (4000, 3000)

    def test_while_the_write_is_in_flight_another_node_is_refused(self) -> None:
        heart, p = self.heart(), pod("p")
        heart.filter(p, "a", "b")
        heart.bind(p, "a")
        heart.filter(p, "a", "b")
        assert error_of(heart.bind(p, "b")) == Code.PROPOSED_OTHER_NODE

    def test_a_failed_bind_leaves_nothing_behind(self) -> None:
        heart, p = self.heart(), pod("p")
        heart.filter(p, "a")
        heart.finish(only(heart.bind(p, "a"), WriteBinding).token, OutcomeKind.REJECTED, "forbidden")
        assert heart.state(p) == "Unknown"
        assert heart.algorithm.free("a") == 4000


class TestEvictions:
    def heart(self) -> Heart:
        heart = Heart(preemption=PreemptionMode.DIRECT)
        heart.see(node("a"), pod("low", cpu=4000, on="a"))
        return heart

    def test_a_pod_that_only_a_caller_has_spoken_of_evicts_nobody(self) -> None:
        heart = self.heart()
        assert [type(x) for x in heart.filter_all(pod("ghost", cpu=4000, priority=9), "a")] == [FilterAnswer]
