"""filter proposes: every trap of the protocol that concerns it."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.reasons import Code
from extender.scheduling.commands import ReadPod, WriteBinding
from extender.scheduling.events import FilterAnswer, NodeGone, PodGone, Synced
from tests.support.engine.harness import EngineHarness, error_of, only
from tests.support.engine.objects import node, pod


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def test_before_the_informers_are_synced_every_filter_is_an_error() -> None:
    engine = EngineHarness(synced=False)
    answer = engine.filter(pod("p"), "a")
    assert answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.NOT_READY
    engine.handle(Synced())
    assert not engine.filter(pod("p"), "a").error


def test_a_pod_that_the_informer_has_not_shown_is_placed_all_the_same(engine: EngineHarness) -> None:
    p = pod("p")
    assert engine.filter(p, "a", "b").node == "a"
    assert engine.state(p) == "Binding"


def test_a_pod_nobody_has_shown_is_verified_and_let_go_if_it_does_not_exist(engine: EngineHarness) -> None:
    p = pod("p", cpu=99_000)
    engine.filter(p, "a")
    read = only(engine.tick(61), ReadPod)
    engine.read(read.token, None)
    assert engine.state(p) == "Unknown"


def test_a_pod_nobody_has_shown_that_exists_is_verified_again_later(engine: EngineHarness) -> None:
    p = pod("p", cpu=99_000)
    engine.filter(p, "a")
    engine.read(only(engine.tick(61), ReadPod).token, p)
    assert engine.state(p) == "Waiting"
    assert not engine.tick(59)
    assert only(engine.tick(2), ReadPod)


def test_repeated_filter_renews_the_lease_and_names_the_same_node(engine: EngineHarness) -> None:
    p = pod("p")
    engine.filter(p, "b")
    engine.now += 50
    assert engine.filter(p, "a", "b").node == "b"
    assert not engine.tick(50), "the lease was renewed, nothing is due"


def test_a_node_that_is_no_longer_offered_is_replaced(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    assert engine.filter(p, "a").node == "a"
    assert engine.filter(p, "b").node == "b"
    assert engine.algorithm.free("a") == 4000


def test_no_place_among_the_newly_offered_means_waiting_and_the_old_place_is_free(engine: EngineHarness) -> None:
    p = pod("p", cpu=3000)
    engine.see(pod("q", cpu=2000, on="b"))
    engine.filter(p, "a")
    answer = engine.filter(p, "b")
    assert answer.node is None
    assert engine.state(p) == "Waiting"
    assert engine.algorithm.free("a") == 4000


def test_a_trial_with_the_nominated_node_alone_does_not_cost_the_place(engine: EngineHarness) -> None:
    p = msgspec.structs.replace(pod("p", cpu=3000), nominated_node_name="b")
    engine.see(pod("q", cpu=2000, on="b"))
    engine.filter(p, "a")
    answer = engine.filter(p, "b")
    assert answer.node is None
    assert answer.reason is not None
    assert answer.reason.code is Code.PLACED_ELSEWHERE
    assert engine.filter(p, "a", "b").node == "a"


def test_a_trial_whose_node_fits_is_taken(engine: EngineHarness) -> None:
    p = msgspec.structs.replace(pod("p"), nominated_node_name="b")
    engine.filter(p, "a")
    assert engine.filter(p, "b").node == "b"


def test_a_place_whose_bind_is_in_flight_is_insisted_on_but_never_named_unoffered(engine: EngineHarness) -> None:
    p = pod("p")
    engine.filter(p, "a")
    engine.bind(p, "a")
    answer = engine.filter(p, "b")
    assert (answer.node, answer.error) == (None, False)
    assert answer.reason is not None
    assert answer.reason.code is Code.BIND_IN_FLIGHT
    assert engine.filter(p, "b", "a").node == "a"


def test_a_filter_that_no_bind_follows_vanishes_once_it_is_verified(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    read = only(engine.tick(61), ReadPod)
    assert engine.state(p) == "Binding", "a timer alone frees nothing"
    engine.read(read.token, p)
    assert engine.state(p) == "Waiting"
    assert engine.algorithm.free("a") == 4000


def test_an_expired_hold_whose_pod_cannot_be_read_is_kept_and_read_again(engine: EngineHarness) -> None:
    from extender.core.outcomes import OutcomeKind

    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    read = only(engine.tick(61), ReadPod)
    engine.read(read.token, None, OutcomeKind.UNKNOWN)
    assert engine.state(p) == "Binding"
    assert only(engine.tick(6), ReadPod)


def test_a_filter_during_the_verification_keeps_the_place(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    read = only(engine.tick(61), ReadPod)
    engine.filter(p, "a")
    engine.read(read.token, p)
    assert engine.state(p) == "Binding"


def test_expiry_finds_a_pod_that_was_bound_unseen(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    read = only(engine.tick(61), ReadPod)
    engine.read(read.token, pod("p", on="a"))
    assert engine.state(p) == "Bound"


def test_nothing_offered_is_refused_with_its_reason(engine: EngineHarness) -> None:
    answer = engine.filter(pod("p"))
    assert answer.reason is not None
    assert answer.reason.code is Code.NOTHING_OFFERED


def test_reasons_of_single_nodes_are_passed_on(engine: EngineHarness) -> None:
    answer = engine.filter(pod("p", cpu=9000), "a", "b", "never-seen")
    assert set(answer.nodes) == {"a", "b"}


@pytest.mark.parametrize("field", [{"terminating": True}, {"phase": "Succeeded"}])
def test_a_pod_at_its_end_is_refused_and_leaves_no_trace(engine: EngineHarness, field: dict[str, object]) -> None:
    p = pod("p", **field)
    assert engine.filter(p, "a").node is None
    assert engine.state(p) == "Unknown"


def test_a_pod_known_to_be_deleted_is_not_raised_from_the_dead(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.handle(PodGone(p.namespace, p.name, p.uid))
    assert engine.filter(p, "a").node is None
    assert engine.state(p) == "Unknown"


def test_a_bound_pod_is_refused(engine: EngineHarness) -> None:
    p = pod("p", on="a")
    engine.see(p)
    answer = engine.filter(pod("p"), "a", "b")
    assert answer.reason is not None
    assert answer.reason.code is Code.ALREADY_BOUND


def test_a_caller_cannot_end_a_running_pod_by_claiming_its_name(engine: EngineHarness) -> None:
    engine.see(pod("p", cpu=3000, on="a"))
    answer = engine.filter(pod("p", uid="another"), "a")
    assert answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.UID_MISMATCH
    assert engine.algorithm.free("a") == 1000


def test_the_algorithms_exception_is_an_error_and_changes_nothing(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.algorithm.fail.add("schedule")
    answer = engine.filter(p, "a")
    assert answer.error
    assert engine.state(p) == "Waiting"
    assert engine.filter(p, "a").node == "a"


def test_a_placement_that_the_algorithm_refuses_to_hear_is_not_made(engine: EngineHarness) -> None:
    p = pod("p")
    engine.algorithm.fail.add("add_allocated_pod")
    assert engine.filter(p, "a").error
    assert engine.state(p) == "Waiting"
    assert engine.filter(p, "a").node == "a"


def test_a_pod_that_the_algorithm_refuses_waits_with_that_reason(engine: EngineHarness) -> None:
    answer = engine.filter(pod("p", annotations=(("refuse", "yes"),)), "a")
    assert not answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.POD_INVALID


def test_a_deleted_node_frees_the_places_proposed_on_it(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    engine.handle(NodeGone("a"))
    assert engine.state(p) == "Waiting"
    assert engine.filter(p, "a", "b").node == "b"


def test_a_deleted_node_with_a_bind_in_flight_waits_for_its_outcome(engine: EngineHarness) -> None:
    p = pod("p")
    engine.filter(p, "a")
    engine.bind(p, "a")
    engine.handle(NodeGone("a"))
    assert engine.state(p) == "Binding"


class TestForceBind:
    def test_after_some_filters_without_a_bind_the_server_binds_by_itself(self) -> None:
        engine = EngineHarness(force_bind_after=2)
        engine.see(node("a"))
        p = pod("p")
        for _ in range(2):
            assert [type(x) for x in engine.filter_all(p, "a")] == [FilterAnswer]
        out = engine.filter_all(p, "a")
        assert only(out, FilterAnswer).node == "a"
        assert only(out, WriteBinding).node == "a"

    def test_a_place_that_is_not_offered_any_more_is_bound_at_once(self) -> None:
        engine = EngineHarness(force_bind_unoffered=True)
        engine.see(node("a"), node("b"))
        p = pod("p")
        engine.filter(p, "a")
        out = engine.filter_all(p, "b")
        assert only(out, FilterAnswer).node is None
        assert only(out, WriteBinding).node == "a"

    def test_without_the_setting_a_place_outside_the_offer_is_the_algorithms_fault(self) -> None:
        engine = EngineHarness()
        engine.see(node("a"), node("b"))
        engine.algorithm.schedule = lambda *_: __import__("algorithm.interface").interface.Bind("b")  # type: ignore
        answer = engine.filter(pod("p"), "a")
        assert answer.error
        assert answer.reason is not None
        assert answer.reason.code is Code.ALGORITHM_FAILED


class TestPodsOfOthers:
    @pytest.fixture
    def engine(self) -> EngineHarness:
        engine = EngineHarness(scheduler_names=frozenset({"ours"}))
        engine.see(node("a"), node("b"))
        return engine

    def test_they_pass_every_filter_untouched(self, engine: EngineHarness) -> None:
        p = pod("p")
        assert engine.filter(p, "a", "b").pass_through
        assert engine.preempt(p, "a").pass_through
        assert engine.state(p) == "Unknown"

    def test_they_are_counted_on_their_nodes(self, engine: EngineHarness) -> None:
        engine.see(pod("other", cpu=3000, on="a"))
        assert engine.filter(pod("p", cpu=2000, scheduler_name="ours"), "a", "b").node == "b"

    def test_one_that_passed_is_bound_where_kube_scheduler_says(self, engine: EngineHarness) -> None:
        p = pod("p")
        engine.filter(p, "a", "b")
        assert only(engine.bind(p, "b"), WriteBinding).node == "b"
        assert engine.algorithm.free("b") == 3000

    def test_its_failed_bind_leaves_no_trace(self, engine: EngineHarness) -> None:
        from extender.core.outcomes import OutcomeKind

        p = pod("p")
        engine.filter(p, "a")
        write = only(engine.bind(p, "a"), WriteBinding)
        engine.finish(write.token, OutcomeKind.REJECTED, "forbidden")
        assert engine.state(p) == "Unknown"
        assert engine.algorithm.free("a") == 4000

    def test_one_whose_bind_may_yet_arrive_passes_only_there(self, engine: EngineHarness) -> None:
        from extender.core.outcomes import OutcomeKind

        p = pod("p")
        engine.filter(p, "a", "b")
        read = only(engine.finish(only(engine.bind(p, "b"), WriteBinding).token, OutcomeKind.UNKNOWN), ReadPod)
        engine.read(read.token, p)
        assert engine.filter(p, "a", "b").node == "b"
        refused = engine.filter(p, "a")
        assert refused.reason is not None
        assert refused.reason.code is Code.BIND_IN_FLIGHT

    def test_it_is_not_bound_to_a_node_that_does_not_exist(self, engine: EngineHarness) -> None:
        """The API server would take that binding."""
        p = pod("p")
        engine.filter(p, "a", "nowhere")
        assert error_of(engine.bind(p, "nowhere")) == Code.NODE_UNKNOWN

    def test_it_is_not_bound_if_it_never_passed(self, engine: EngineHarness) -> None:
        assert error_of(engine.bind(pod("p"), "a")) == Code.NEVER_PROPOSED

    def test_by_resource_the_name_alone_counts(self) -> None:
        engine = EngineHarness(resource="example.com/gpu")
        engine.see(node("a"))
        assert engine.filter(pod("none"), "a").pass_through
        wanted = pod("zero", requests=(("cpu", 1), ("example.com/gpu", 0)))
        assert not engine.filter(wanted, "a").pass_through

    def test_by_annotation(self) -> None:
        engine = EngineHarness(annotation="waggle.dev/ours")
        engine.see(node("a"))
        assert engine.filter(pod("no"), "a").pass_through
        assert not engine.filter(pod("yes", annotations=(("waggle.dev/ours", ""),)), "a").pass_through
