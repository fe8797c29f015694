"""bind commits: only what was proposed, once, and every way in which a write can end."""

from __future__ import annotations

import pytest

from algorithm.reasons import Code
from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import ReadPod, RecordEvent, RequeuePod, WriteBinding
from extender.scheduling.events import BindAnswer, BindRequested, NodeGone, NodeSeen, PodGone
from tests.support.engine.harness import EngineHarness, error_of, only
from tests.support.engine.objects import node, pod


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def placed(engine: EngineHarness, name: str = "p", cpu: int = 1000):
    p = pod(name, cpu=cpu)
    engine.see(p)
    assert engine.filter(p, "a").node == "a"
    return p


def writing(engine: EngineHarness, p) -> int:
    """Token of the write that a bind request starts."""
    return only(engine.bind(p, "a"), WriteBinding).token


def test_the_binding_carries_uid_node_and_the_algorithms_annotations(engine: EngineHarness) -> None:
    p = placed(engine)
    write = only(engine.bind(p, "a"), WriteBinding)
    assert (write.uid, write.node, write.annotations) == (p.uid, "a", (("plain/place", "a"),))


def test_done_is_success_and_the_informer_confirms(engine: EngineHarness) -> None:
    p = placed(engine)
    assert error_of(engine.finish(writing(engine, p), OutcomeKind.DONE)) is None
    assert engine.state(p) == "Binding"
    engine.see(pod("p", on="a"))
    assert engine.state(p) == "Bound"
    assert not engine.tick(1000), "nothing is left to expire"


def test_the_informer_may_be_quicker_than_the_writes_answer(engine: EngineHarness) -> None:
    p = placed(engine)
    token = writing(engine, p)
    assert error_of(engine.see(pod("p", on="a"))) is None
    assert engine.finish(token, OutcomeKind.DONE) == []


def test_two_binds_of_one_place_are_one_write_with_two_answers(engine: EngineHarness) -> None:
    p = placed(engine)
    token = writing(engine, p)
    assert engine.bind(p, "a") == []
    answers = [x for x in engine.finish(token, OutcomeKind.DONE) if isinstance(x, BindAnswer)]
    assert [answer.request for answer in answers] == [1, 2]


def test_a_bind_after_the_write_is_done_succeeds_at_once(engine: EngineHarness) -> None:
    p = placed(engine)
    engine.finish(writing(engine, p), OutcomeKind.DONE)
    assert error_of(engine.bind(p, "a")) is None
    engine.see(pod("p", on="a"))
    assert error_of(engine.bind(p, "a")) is None


@pytest.mark.parametrize("state", ["unknown", "waiting"])
def test_what_was_never_proposed_is_refused(engine: EngineHarness, state: str) -> None:
    p = pod("p", cpu=99_000)
    if state == "waiting":
        engine.filter(p, "a")
    assert error_of(engine.bind(p, "a")) == Code.NEVER_PROPOSED


def test_another_node_than_the_proposed_is_refused(engine: EngineHarness) -> None:
    assert error_of(engine.bind(placed(engine), "b")) == Code.PROPOSED_OTHER_NODE


def test_another_node_than_the_bound_is_refused(engine: EngineHarness) -> None:
    engine.see(pod("p", on="a"))
    assert error_of(engine.bind(pod("p"), "b")) == Code.ALREADY_BOUND


def test_another_uid_is_refused(engine: EngineHarness) -> None:
    placed(engine)
    assert error_of(engine.bind(pod("p", uid="younger"), "a")) == Code.UID_MISMATCH


def test_a_uid_of_another_name_is_refused(engine: EngineHarness) -> None:
    p = placed(engine)
    assert error_of(engine.handle(BindRequested(9, "default", "q", p.uid, "a"))) == Code.BAD_REQUEST


def test_a_deleted_pod_is_refused(engine: EngineHarness) -> None:
    p = placed(engine)
    engine.handle(PodGone(p.namespace, p.name, p.uid))
    assert error_of(engine.bind(p, "a")) == Code.BIND_GONE


@pytest.mark.parametrize("kind", [OutcomeKind.LOST, OutcomeKind.UNKNOWN])
class TestReadBack:
    def test_same_node_and_uid_is_success(self, engine: EngineHarness, kind: OutcomeKind) -> None:
        p = placed(engine)
        read = only(engine.finish(writing(engine, p), kind), ReadPod)
        assert error_of(engine.read(read.token, pod("p", on="a"))) is None
        assert engine.state(p) == "Bound"

    def test_another_node_is_lost_and_the_place_is_free(self, engine: EngineHarness, kind: OutcomeKind) -> None:
        p = placed(engine)
        read = only(engine.finish(writing(engine, p), kind), ReadPod)
        assert error_of(engine.read(read.token, pod("p", on="b"))) == Code.BIND_LOST
        assert (engine.algorithm.free("a"), engine.algorithm.free("b")) == (4000, 3000)

    def test_another_uid_means_that_ours_is_gone(self, engine: EngineHarness, kind: OutcomeKind) -> None:
        p = placed(engine)
        read = only(engine.finish(writing(engine, p), kind), ReadPod)
        assert error_of(engine.read(read.token, pod("p", uid="younger"))) == Code.BIND_STALE
        assert engine.state(p) == "Unknown"

    def test_gone_is_gone(self, engine: EngineHarness, kind: OutcomeKind) -> None:
        p = placed(engine)
        read = only(engine.finish(writing(engine, p), kind), ReadPod)
        assert error_of(engine.read(read.token, None)) == Code.BIND_GONE
        assert engine.state(p) == "Unknown"

    def test_if_it_cannot_be_read_callers_are_answered_and_we_read_again(
        self, engine: EngineHarness, kind: OutcomeKind
    ) -> None:
        p = placed(engine)
        read = only(engine.finish(writing(engine, p), kind), ReadPod)
        assert error_of(engine.read(read.token, None, OutcomeKind.UNKNOWN)) == Code.BIND_UNKNOWN
        assert engine.filter(p, "b").node is None, "the place is insisted on until the outcome is known"
        again = only(engine.tick(6), ReadPod)
        engine.read(again.token, pod("p", on="a"))
        assert engine.state(p) == "Bound"


def test_unknown_and_not_bound_keeps_the_place_since_the_write_may_yet_arrive(engine: EngineHarness) -> None:
    p = placed(engine)
    read = only(engine.finish(writing(engine, p), OutcomeKind.UNKNOWN), ReadPod)
    assert error_of(engine.read(read.token, p)) == Code.BIND_UNKNOWN
    assert engine.filter(p, "a", "b").node == "a"
    assert only(engine.bind(p, "a"), WriteBinding)


def test_lost_and_not_bound_was_refused_for_another_reason(engine: EngineHarness) -> None:
    p = placed(engine)
    read = only(engine.finish(writing(engine, p), OutcomeKind.LOST, "pod has non-empty .spec.schedulingGates"), ReadPod)
    out = engine.read(read.token, p)
    assert error_of(out) == Code.BIND_REJECTED
    assert "schedulingGates" in only(out, RecordEvent).reason.text
    assert engine.state(p) == "Waiting"


def test_rejected_frees_the_place_and_says_why(engine: EngineHarness) -> None:
    p = placed(engine)
    out = engine.finish(writing(engine, p), OutcomeKind.REJECTED, "forbidden")
    assert error_of(out) == Code.BIND_REJECTED
    assert engine.algorithm.free("a") == 4000


def test_throttled_keeps_the_place_for_the_retry(engine: EngineHarness) -> None:
    p = placed(engine)
    assert error_of(engine.finish(writing(engine, p), OutcomeKind.THROTTLED)) == Code.BIND_THROTTLED
    assert engine.filter(p, "a", "b").node == "a"


@pytest.mark.parametrize("kind", [OutcomeKind.GONE, OutcomeKind.STALE])
def test_a_pod_that_no_longer_exists_is_forgotten(engine: EngineHarness, kind: OutcomeKind) -> None:
    p = placed(engine)
    code = Code.BIND_GONE if kind is OutcomeKind.GONE else Code.BIND_STALE
    assert error_of(engine.finish(writing(engine, p), kind)) == code
    assert engine.state(p) == "Unknown"
    assert engine.algorithm.free("a") == 4000


def test_a_pod_deleted_while_its_bind_is_in_flight_is_answered_and_the_late_outcome_ignored(
    engine: EngineHarness,
) -> None:
    p = placed(engine)
    token = writing(engine, p)
    assert error_of(engine.handle(PodGone(p.namespace, p.name, p.uid))) == Code.BIND_GONE
    assert engine.finish(token, OutcomeKind.DONE) == []


def test_an_outcome_that_is_never_reported_is_looked_after(engine: EngineHarness) -> None:
    p = placed(engine)
    writing(engine, p)
    read = only(engine.tick(61), ReadPod)
    assert error_of(engine.read(read.token, pod("p", on="a"))) is None


def test_a_written_binding_that_is_never_confirmed_is_verified(engine: EngineHarness) -> None:
    p = placed(engine)
    engine.finish(writing(engine, p), OutcomeKind.DONE)
    read = only(engine.tick(61), ReadPod)
    assert not engine.tick(1), "one read at a time"
    engine.read(read.token, pod("p", on="a"))
    assert engine.state(p) == "Bound"


def test_room_freed_by_a_failed_bind_wakes_who_waits_for_it(engine: EngineHarness) -> None:
    p = placed(engine, cpu=4000)
    low, high = pod("low", cpu=4000), pod("high", cpu=4000, priority=0)
    for waiting in (low, high):
        engine.see(waiting)
        assert engine.filter(waiting, "a").node is None
    out = engine.finish(writing(engine, p), OutcomeKind.REJECTED, "forbidden")
    assert [x.name for x in out if isinstance(x, RequeuePod)] == ["low", "high"]


def test_a_pod_is_not_nudged_again_at_once(engine: EngineHarness) -> None:
    waiting = pod("w", cpu=4000)
    engine.see(waiting)
    first, second = placed(engine, "p", cpu=4000), pod("q", cpu=4000)
    engine.filter(waiting, "a")
    assert [x for x in engine.finish(writing(engine, first), OutcomeKind.REJECTED) if isinstance(x, RequeuePod)]
    engine.filter(second, "a")
    engine.filter(waiting, "a")
    out = engine.finish(only(engine.bind(second, "a"), WriteBinding).token, OutcomeKind.REJECTED)
    assert not [x for x in out if isinstance(x, RequeuePod)]
    assert engine.machine.next_due() is not None
    assert only(engine.tick(11), RequeuePod).name == "w"


def test_a_node_event_between_filter_and_bind_changes_nothing(engine: EngineHarness) -> None:
    p = placed(engine)
    engine.handle(NodeSeen(node("a", cpu=100)))
    assert only(engine.bind(p, "a"), WriteBinding).node == "a"


def test_a_filter_after_the_write_does_not_put_off_its_verification(engine: EngineHarness) -> None:
    p = placed(engine)
    engine.finish(writing(engine, p), OutcomeKind.DONE)
    engine.now += 50
    assert engine.filter(p, "a").node == "a"
    assert only(engine.tick(11), ReadPod)


class TestAWriteThatMayYetArrive:
    """Sent, not answered, and not there when read back: until the API server has given it up it may still be done."""

    def in_doubt(self, engine: EngineHarness):
        p = placed(engine)
        read = only(engine.finish(writing(engine, p), OutcomeKind.UNKNOWN), ReadPod)
        engine.read(read.token, p)
        return p

    def test_a_second_write_that_is_rejected_does_not_free_the_place(self, engine: EngineHarness) -> None:
        p = self.in_doubt(engine)
        out = engine.finish(writing(engine, p), OutcomeKind.REJECTED, "forbidden")
        assert error_of(out) == Code.BIND_REJECTED
        assert engine.algorithm.free("a") == 3000

    def test_another_offer_does_not_move_it(self, engine: EngineHarness) -> None:
        answer = engine.filter(self.in_doubt(engine), "b")
        assert answer.reason is not None
        assert answer.reason.code is Code.BIND_IN_FLIGHT

    def test_a_deleted_node_does_not_free_it(self, engine: EngineHarness) -> None:
        p = self.in_doubt(engine)
        engine.handle(NodeGone("a"))
        assert engine.state(p) == "Binding"

    def test_a_lease_that_is_shorter_does_not_free_it(self) -> None:
        engine = EngineHarness(lease=5)
        engine.see(node("a"))
        p = self.in_doubt(engine)
        assert not engine.tick(50), "nothing is verified while it may arrive"
        engine.read(only(engine.tick(11), ReadPod).token, p)
        assert engine.state(p) == "Waiting"

    def test_when_it_arrives_it_is_bound_where_it_was_expected(self, engine: EngineHarness) -> None:
        p = self.in_doubt(engine)
        engine.finish(writing(engine, p), OutcomeKind.REJECTED, "forbidden")
        engine.see(pod("p", on="a"))
        assert engine.state(p) == "Bound"


def test_a_write_is_not_worth_sending_any_more_long_before_it_is_given_up(engine: EngineHarness) -> None:
    p = placed(engine)
    write = only(engine.bind(p, "a"), WriteBinding)
    assert write.valid_for < engine.machine.policy.write_timeout / 2
