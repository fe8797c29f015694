"""bind commits: only what was proposed, once, and every way in which a write can end."""

from __future__ import annotations

import pytest

from algorithm.reasons import Code
from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import ReadPod, RecordEvent, RequeuePod, WriteBinding
from extender.scheduling.events import BindAnswer, BindRequested, NodeGone, NodeSeen, PodGone
from tests.support.heart import Heart, error_of, only
from tests.support.objects import node, pod


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), node("b"))
    return heart


def placed(heart: Heart, name: str = "p", cpu: int = 1000):
    p = pod(name, cpu=cpu)
    heart.see(p)
    assert heart.filter(p, "a").node == "a"
    return p


def writing(heart: Heart, p) -> int:
    """Token of the write that a bind request starts."""
    return only(heart.bind(p, "a"), WriteBinding).token


def test_the_binding_carries_uid_node_and_the_algorithms_annotations(heart: Heart) -> None:
    p = placed(heart)
    write = only(heart.bind(p, "a"), WriteBinding)
    assert (write.uid, write.node, write.annotations) == (p.uid, "a", (("plain/place", "a"),))


def test_done_is_success_and_the_informer_confirms(heart: Heart) -> None:
    p = placed(heart)
    assert error_of(heart.finish(writing(heart, p), OutcomeKind.DONE)) is None
    assert heart.state(p) == "Binding"
    heart.see(pod("p", on="a"))
    assert heart.state(p) == "Bound"
    assert not heart.tick(1000), "nothing is left to expire"


def test_the_informer_may_be_quicker_than_the_writes_answer(heart: Heart) -> None:
    p = placed(heart)
    token = writing(heart, p)
    assert error_of(heart.see(pod("p", on="a"))) is None
    assert heart.finish(token, OutcomeKind.DONE) == []


def test_two_binds_of_one_place_are_one_write_with_two_answers(heart: Heart) -> None:
    p = placed(heart)
    token = writing(heart, p)
    assert heart.bind(p, "a") == []
    answers = [x for x in heart.finish(token, OutcomeKind.DONE) if isinstance(x, BindAnswer)]
    assert [answer.request for answer in answers] == [1, 2]


def test_a_bind_after_the_write_is_done_succeeds_at_once(heart: Heart) -> None:
    p = placed(heart)
    heart.finish(writing(heart, p), OutcomeKind.DONE)
    assert error_of(heart.bind(p, "a")) is None
    heart.see(pod("p", on="a"))
    assert error_of(heart.bind(p, "a")) is None


@pytest.mark.parametrize("state", ["unknown", "waiting"])
def test_what_was_never_proposed_is_refused(heart: Heart, state: str) -> None:
    p = pod("p", cpu=99_000)
    if state == "waiting":
        heart.filter(p, "a")
    assert error_of(heart.bind(p, "a")) == Code.NEVER_PROPOSED


def test_another_node_than_the_proposed_is_refused(heart: Heart) -> None:
    assert error_of(heart.bind(placed(heart), "b")) == Code.PROPOSED_OTHER_NODE


def test_another_node_than_the_bound_is_refused(heart: Heart) -> None:
    heart.see(pod("p", on="a"))
    assert error_of(heart.bind(pod("p"), "b")) == Code.ALREADY_BOUND


def test_another_uid_is_refused(heart: Heart) -> None:
    placed(heart)
    assert error_of(heart.bind(pod("p", uid="younger"), "a")) == Code.UID_MISMATCH


def test_a_uid_of_another_name_is_refused(heart: Heart) -> None:
    p = placed(heart)
    assert error_of(heart.handle(BindRequested(9, "default", "q", p.uid, "a"))) == Code.BAD_REQUEST


def test_a_deleted_pod_is_refused(heart: Heart) -> None:
    p = placed(heart)
    heart.handle(PodGone(p.namespace, p.name, p.uid))
    assert error_of(heart.bind(p, "a")) == Code.BIND_GONE


@pytest.mark.parametrize("kind", [OutcomeKind.LOST, OutcomeKind.UNKNOWN])
class TestReadBack:
    def test_same_node_and_uid_is_success(self, heart: Heart, kind: OutcomeKind) -> None:
        p = placed(heart)
        read = only(heart.finish(writing(heart, p), kind), ReadPod)
        assert error_of(heart.read(read.token, pod("p", on="a"))) is None
        assert heart.state(p) == "Bound"

    def test_another_node_is_lost_and_the_place_is_free(self, heart: Heart, kind: OutcomeKind) -> None:
        p = placed(heart)
        read = only(heart.finish(writing(heart, p), kind), ReadPod)
        assert error_of(heart.read(read.token, pod("p", on="b"))) == Code.BIND_LOST
        assert (heart.algorithm.free("a"), heart.algorithm.free("b")) == (4000, 3000)

    def test_another_uid_means_that_ours_is_gone(self, heart: Heart, kind: OutcomeKind) -> None:
        p = placed(heart)
        read = only(heart.finish(writing(heart, p), kind), ReadPod)
        assert error_of(heart.read(read.token, pod("p", uid="younger"))) == Code.BIND_STALE
        assert heart.state(p) == "Unknown"

    def test_gone_is_gone(self, heart: Heart, kind: OutcomeKind) -> None:
        p = placed(heart)
        read = only(heart.finish(writing(heart, p), kind), ReadPod)
        assert error_of(heart.read(read.token, None)) == Code.BIND_GONE
        assert heart.state(p) == "Unknown"

    def test_if_it_cannot_be_read_callers_are_answered_and_we_read_again(self, heart: Heart, kind: OutcomeKind) -> None:
        p = placed(heart)
        read = only(heart.finish(writing(heart, p), kind), ReadPod)
        assert error_of(heart.read(read.token, None, OutcomeKind.UNKNOWN)) == Code.BIND_UNKNOWN
        assert heart.filter(p, "b").node is None, "the place is insisted on until the outcome is known"
        again = only(heart.tick(6), ReadPod)
        heart.read(again.token, pod("p", on="a"))
        assert heart.state(p) == "Bound"


def test_unknown_and_not_bound_keeps_the_place_since_the_write_may_yet_arrive(heart: Heart) -> None:
    p = placed(heart)
    read = only(heart.finish(writing(heart, p), OutcomeKind.UNKNOWN), ReadPod)
    assert error_of(heart.read(read.token, p)) == Code.BIND_UNKNOWN
    assert heart.filter(p, "a", "b").node == "a"
    assert only(heart.bind(p, "a"), WriteBinding)


def test_lost_and_not_bound_was_refused_for_another_reason(heart: Heart) -> None:
    p = placed(heart)
    read = only(heart.finish(writing(heart, p), OutcomeKind.LOST, "pod has non-empty .spec.schedulingGates"), ReadPod)
    out = heart.read(read.token, p)
    assert error_of(out) == Code.BIND_REJECTED
    assert "schedulingGates" in only(out, RecordEvent).reason.text
    assert heart.state(p) == "Waiting"


def test_rejected_frees_the_place_and_says_why(heart: Heart) -> None:
    p = placed(heart)
    out = heart.finish(writing(heart, p), OutcomeKind.REJECTED, "forbidden")
    assert error_of(out) == Code.BIND_REJECTED
    assert heart.algorithm.free("a") == 4000


def test_throttled_keeps_the_place_for_the_retry(heart: Heart) -> None:
    p = placed(heart)
    assert error_of(heart.finish(writing(heart, p), OutcomeKind.THROTTLED)) == Code.BIND_THROTTLED
    assert heart.filter(p, "a", "b").node == "a"


@pytest.mark.parametrize("kind", [OutcomeKind.GONE, OutcomeKind.STALE])
def test_a_pod_that_no_longer_exists_is_forgotten(heart: Heart, kind: OutcomeKind) -> None:
    p = placed(heart)
    code = Code.BIND_GONE if kind is OutcomeKind.GONE else Code.BIND_STALE
    assert error_of(heart.finish(writing(heart, p), kind)) == code
    assert heart.state(p) == "Unknown"
    assert heart.algorithm.free("a") == 4000


def test_a_pod_deleted_while_its_bind_is_in_flight_is_answered_and_the_late_outcome_ignored(heart: Heart) -> None:
    p = placed(heart)
    token = writing(heart, p)
    assert error_of(heart.handle(PodGone(p.namespace, p.name, p.uid))) == Code.BIND_GONE
    assert heart.finish(token, OutcomeKind.DONE) == []


def test_an_outcome_that_is_never_reported_is_looked_after(heart: Heart) -> None:
    p = placed(heart)
    writing(heart, p)
    read = only(heart.tick(61), ReadPod)
    assert error_of(heart.read(read.token, pod("p", on="a"))) is None


def test_a_written_binding_that_is_never_confirmed_is_verified(heart: Heart) -> None:
    p = placed(heart)
    heart.finish(writing(heart, p), OutcomeKind.DONE)
    read = only(heart.tick(61), ReadPod)
    assert not heart.tick(1), "one read at a time"
    heart.read(read.token, pod("p", on="a"))
    assert heart.state(p) == "Bound"


def test_room_freed_by_a_failed_bind_wakes_who_waits_for_it(heart: Heart) -> None:
    p = placed(heart, cpu=4000)
    low, high = pod("low", cpu=4000), pod("high", cpu=4000, priority=0)
    for waiting in (low, high):
        heart.see(waiting)
        assert heart.filter(waiting, "a").node is None
    out = heart.finish(writing(heart, p), OutcomeKind.REJECTED, "forbidden")
    assert [x.name for x in out if isinstance(x, RequeuePod)] == ["low", "high"]


def test_a_pod_is_not_nudged_again_at_once(heart: Heart) -> None:
    waiting = pod("w", cpu=4000)
    heart.see(waiting)
    first, second = placed(heart, "p", cpu=4000), pod("q", cpu=4000)
    heart.filter(waiting, "a")
    assert [x for x in heart.finish(writing(heart, first), OutcomeKind.REJECTED) if isinstance(x, RequeuePod)]
    heart.filter(second, "a")
    heart.filter(waiting, "a")
    out = heart.finish(only(heart.bind(second, "a"), WriteBinding).token, OutcomeKind.REJECTED)
    assert not [x for x in out if isinstance(x, RequeuePod)]
    assert heart.lifecycle.next_due() is not None
    assert only(heart.tick(11), RequeuePod).name == "w"


def test_a_node_event_between_filter_and_bind_changes_nothing(heart: Heart) -> None:
    p = placed(heart)
    heart.handle(NodeSeen(node("a", cpu=100)))
    assert only(heart.bind(p, "a"), WriteBinding).node == "a"


def test_a_filter_after_the_write_does_not_put_off_its_verification(heart: Heart) -> None:
    p = placed(heart)
    heart.finish(writing(heart, p), OutcomeKind.DONE)
    heart.now += 50
    assert heart.filter(p, "a").node == "a"
    assert only(heart.tick(11), ReadPod)


class TestAWriteThatMayYetArrive:
    """Sent, not answered, and not there when read back: until the API server has given it up it may still be done."""

    def in_doubt(self, heart: Heart):
        p = placed(heart)
        read = only(heart.finish(writing(heart, p), OutcomeKind.UNKNOWN), ReadPod)
        heart.read(read.token, p)
        return p

    def test_a_second_write_that_is_rejected_does_not_free_the_place(self, heart: Heart) -> None:
        p = self.in_doubt(heart)
        out = heart.finish(writing(heart, p), OutcomeKind.REJECTED, "forbidden")
        assert error_of(out) == Code.BIND_REJECTED
        assert heart.algorithm.free("a") == 3000

    def test_another_offer_does_not_move_it(self, heart: Heart) -> None:
        answer = heart.filter(self.in_doubt(heart), "b")
        assert answer.reason is not None
        assert answer.reason.code is Code.BIND_IN_FLIGHT

    def test_a_deleted_node_does_not_free_it(self, heart: Heart) -> None:
        p = self.in_doubt(heart)
        heart.handle(NodeGone("a"))
        assert heart.state(p) == "Binding"

    def test_a_lease_that_is_shorter_does_not_free_it(self) -> None:
        heart = Heart(lease=5)
        heart.see(node("a"))
        p = self.in_doubt(heart)
        assert not heart.tick(50), "nothing is verified while it may arrive"
        heart.read(only(heart.tick(11), ReadPod).token, p)
        assert heart.state(p) == "Waiting"

    def test_when_it_arrives_it_is_bound_where_it_was_expected(self, heart: Heart) -> None:
        p = self.in_doubt(heart)
        heart.finish(writing(heart, p), OutcomeKind.REJECTED, "forbidden")
        heart.see(pod("p", on="a"))
        assert heart.state(p) == "Bound"


def test_a_write_is_not_worth_sending_any_more_long_before_it_is_given_up(heart: Heart) -> None:
    p = placed(heart)
    write = only(heart.bind(p, "a"), WriteBinding)
    assert write.valid_for < heart.lifecycle.policy.write_timeout / 2
