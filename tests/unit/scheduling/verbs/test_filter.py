"""filter proposes: every trap of the protocol that concerns it."""

from __future__ import annotations

import msgspec
import pytest

from algorithm.reasons import Code
from extender.scheduling.commands import ReadPod, WriteBinding
from extender.scheduling.events import FilterAnswer, NodeGone, PodGone, Synced
from tests.support.heart import Heart, error_of, only
from tests.support.objects import node, pod


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), node("b"))
    return heart


def test_before_the_informers_are_synced_every_filter_is_an_error() -> None:
    heart = Heart(synced=False)
    answer = heart.filter(pod("p"), "a")
    assert answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.NOT_READY
    heart.handle(Synced())
    assert not heart.filter(pod("p"), "a").error


def test_a_pod_that_the_informer_has_not_shown_is_placed_all_the_same(heart: Heart) -> None:
    p = pod("p")
    assert heart.filter(p, "a", "b").node == "a"
    assert heart.state(p) == "Binding"


def test_a_pod_nobody_has_shown_is_verified_and_let_go_if_it_does_not_exist(heart: Heart) -> None:
    p = pod("p", cpu=99_000)
    heart.filter(p, "a")
    read = only(heart.tick(61), ReadPod)
    heart.read(read.token, None)
    assert heart.state(p) == "Unknown"


def test_a_pod_nobody_has_shown_that_exists_is_verified_again_later(heart: Heart) -> None:
    p = pod("p", cpu=99_000)
    heart.filter(p, "a")
    heart.read(only(heart.tick(61), ReadPod).token, p)
    assert heart.state(p) == "Waiting"
    assert not heart.tick(59)
    assert only(heart.tick(2), ReadPod)


def test_repeated_filter_renews_the_lease_and_names_the_same_node(heart: Heart) -> None:
    p = pod("p")
    heart.filter(p, "b")
    heart.now += 50
    assert heart.filter(p, "a", "b").node == "b"
    assert not heart.tick(50), "the lease was renewed, nothing is due"


def test_a_node_that_is_no_longer_offered_is_replaced(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    assert heart.filter(p, "a").node == "a"
    assert heart.filter(p, "b").node == "b"
    assert heart.algorithm.free("a") == 4000


def test_no_place_among_the_newly_offered_means_waiting_and_the_old_place_is_free(heart: Heart) -> None:
    p = pod("p", cpu=3000)
    heart.see(pod("q", cpu=2000, on="b"))
    heart.filter(p, "a")
    answer = heart.filter(p, "b")
    assert answer.node is None
    assert heart.state(p) == "Waiting"
    assert heart.algorithm.free("a") == 4000


def test_a_trial_with_the_nominated_node_alone_does_not_cost_the_place(heart: Heart) -> None:
    p = msgspec.structs.replace(pod("p", cpu=3000), nominated_node_name="b")
    heart.see(pod("q", cpu=2000, on="b"))
    heart.filter(p, "a")
    answer = heart.filter(p, "b")
    assert answer.node is None
    assert answer.reason is not None
    assert answer.reason.code is Code.PLACED_ELSEWHERE
    assert heart.filter(p, "a", "b").node == "a"


def test_a_trial_whose_node_fits_is_taken(heart: Heart) -> None:
    p = msgspec.structs.replace(pod("p"), nominated_node_name="b")
    heart.filter(p, "a")
    assert heart.filter(p, "b").node == "b"


def test_a_place_whose_bind_is_in_flight_is_insisted_on_but_never_named_unoffered(heart: Heart) -> None:
    p = pod("p")
    heart.filter(p, "a")
    heart.bind(p, "a")
    answer = heart.filter(p, "b")
    assert (answer.node, answer.error) == (None, False)
    assert answer.reason is not None
    assert answer.reason.code is Code.BIND_IN_FLIGHT
    assert heart.filter(p, "b", "a").node == "a"


def test_a_filter_that_no_bind_follows_vanishes_once_it_is_verified(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    read = only(heart.tick(61), ReadPod)
    assert heart.state(p) == "Binding", "a timer alone frees nothing"
    heart.read(read.token, p)
    assert heart.state(p) == "Waiting"
    assert heart.algorithm.free("a") == 4000


def test_an_expired_hold_whose_pod_cannot_be_read_is_kept_and_read_again(heart: Heart) -> None:
    from extender.core.outcomes import OutcomeKind

    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    read = only(heart.tick(61), ReadPod)
    heart.read(read.token, None, OutcomeKind.UNKNOWN)
    assert heart.state(p) == "Binding"
    assert only(heart.tick(6), ReadPod)


def test_a_filter_during_the_verification_keeps_the_place(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    read = only(heart.tick(61), ReadPod)
    heart.filter(p, "a")
    heart.read(read.token, p)
    assert heart.state(p) == "Binding"


def test_expiry_finds_a_pod_that_was_bound_unseen(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    read = only(heart.tick(61), ReadPod)
    heart.read(read.token, pod("p", on="a"))
    assert heart.state(p) == "Bound"


def test_nothing_offered_is_refused_with_its_reason(heart: Heart) -> None:
    answer = heart.filter(pod("p"))
    assert answer.reason is not None
    assert answer.reason.code is Code.NOTHING_OFFERED


def test_reasons_of_single_nodes_are_passed_on(heart: Heart) -> None:
    answer = heart.filter(pod("p", cpu=9000), "a", "b", "never-seen")
    assert set(answer.nodes) == {"a", "b"}


@pytest.mark.parametrize("field", [{"terminating": True}, {"phase": "Succeeded"}])
def test_a_pod_at_its_end_is_refused_and_leaves_no_trace(heart: Heart, field: dict[str, object]) -> None:
    p = pod("p", **field)
    assert heart.filter(p, "a").node is None
    assert heart.state(p) == "Unknown"


def test_a_pod_known_to_be_deleted_is_not_raised_from_the_dead(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.handle(PodGone(p.namespace, p.name, p.uid))
    assert heart.filter(p, "a").node is None
    assert heart.state(p) == "Unknown"


def test_a_bound_pod_is_refused(heart: Heart) -> None:
    p = pod("p", on="a")
    heart.see(p)
    answer = heart.filter(pod("p"), "a", "b")
    assert answer.reason is not None
    assert answer.reason.code is Code.ALREADY_BOUND


def test_a_caller_cannot_end_a_running_pod_by_claiming_its_name(heart: Heart) -> None:
    heart.see(pod("p", cpu=3000, on="a"))
    answer = heart.filter(pod("p", uid="another"), "a")
    assert answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.UID_MISMATCH
    assert heart.algorithm.free("a") == 1000


def test_the_algorithms_exception_is_an_error_and_changes_nothing(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.algorithm.fail.add("schedule")
    answer = heart.filter(p, "a")
    assert answer.error
    assert heart.state(p) == "Waiting"
    assert heart.filter(p, "a").node == "a"


def test_a_placement_that_the_algorithm_refuses_to_hear_is_not_made(heart: Heart) -> None:
    p = pod("p")
    heart.algorithm.fail.add("add_allocated_pod")
    assert heart.filter(p, "a").error
    assert heart.state(p) == "Waiting"
    assert heart.filter(p, "a").node == "a"


def test_a_pod_that_the_algorithm_refuses_waits_with_that_reason(heart: Heart) -> None:
    answer = heart.filter(pod("p", annotations=(("refuse", "yes"),)), "a")
    assert not answer.error
    assert answer.reason is not None
    assert answer.reason.code is Code.POD_INVALID


def test_a_deleted_node_frees_the_places_proposed_on_it(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    heart.handle(NodeGone("a"))
    assert heart.state(p) == "Waiting"
    assert heart.filter(p, "a", "b").node == "b"


def test_a_deleted_node_with_a_bind_in_flight_waits_for_its_outcome(heart: Heart) -> None:
    p = pod("p")
    heart.filter(p, "a")
    heart.bind(p, "a")
    heart.handle(NodeGone("a"))
    assert heart.state(p) == "Binding"


class TestForceBind:
    def test_after_some_filters_without_a_bind_the_server_binds_by_itself(self) -> None:
        heart = Heart(force_bind_after=2)
        heart.see(node("a"))
        p = pod("p")
        for _ in range(2):
            assert [type(x) for x in heart.filter_all(p, "a")] == [FilterAnswer]
        out = heart.filter_all(p, "a")
        assert only(out, FilterAnswer).node == "a"
        assert only(out, WriteBinding).node == "a"

    def test_a_place_that_is_not_offered_any_more_is_bound_at_once(self) -> None:
        heart = Heart(force_bind_unoffered=True)
        heart.see(node("a"), node("b"))
        p = pod("p")
        heart.filter(p, "a")
        out = heart.filter_all(p, "b")
        assert only(out, FilterAnswer).node is None
        assert only(out, WriteBinding).node == "a"

    def test_without_the_setting_a_place_outside_the_offer_is_the_algorithms_fault(self) -> None:
        heart = Heart()
        heart.see(node("a"), node("b"))
        heart.algorithm.schedule = lambda *_: __import__("algorithm.interface").interface.Bind("b")  # type: ignore
        answer = heart.filter(pod("p"), "a")
        assert answer.error
        assert answer.reason is not None
        assert answer.reason.code is Code.ALGORITHM_FAILED


class TestPodsOfOthers:
    @pytest.fixture
    def heart(self) -> Heart:
        heart = Heart(scheduler_names=frozenset({"ours"}))
        heart.see(node("a"), node("b"))
        return heart

    def test_they_pass_every_filter_untouched(self, heart: Heart) -> None:
        p = pod("p")
        assert heart.filter(p, "a", "b").pass_through
        assert heart.preempt(p, "a").pass_through
        assert heart.state(p) == "Unknown"

    def test_they_are_counted_on_their_nodes(self, heart: Heart) -> None:
        heart.see(pod("other", cpu=3000, on="a"))
        assert heart.filter(pod("p", cpu=2000, scheduler_name="ours"), "a", "b").node == "b"

    def test_one_that_passed_is_bound_where_kube_scheduler_says(self, heart: Heart) -> None:
        p = pod("p")
        heart.filter(p, "a", "b")
        assert only(heart.bind(p, "b"), WriteBinding).node == "b"
        assert heart.algorithm.free("b") == 3000

    def test_its_failed_bind_leaves_no_trace(self, heart: Heart) -> None:
        from extender.core.outcomes import OutcomeKind

        p = pod("p")
        heart.filter(p, "a")
        write = only(heart.bind(p, "a"), WriteBinding)
        heart.finish(write.token, OutcomeKind.REJECTED, "forbidden")
        assert heart.state(p) == "Unknown"
        assert heart.algorithm.free("a") == 4000

    def test_one_whose_bind_may_yet_arrive_passes_only_there(self, heart: Heart) -> None:
        from extender.core.outcomes import OutcomeKind

        p = pod("p")
        heart.filter(p, "a", "b")
        read = only(heart.finish(only(heart.bind(p, "b"), WriteBinding).token, OutcomeKind.UNKNOWN), ReadPod)
        heart.read(read.token, p)
        assert heart.filter(p, "a", "b").node == "b"
        refused = heart.filter(p, "a")
        assert refused.reason is not None
        assert refused.reason.code is Code.BIND_IN_FLIGHT

    def test_it_is_not_bound_to_a_node_that_does_not_exist(self, heart: Heart) -> None:
        """The API server would take that binding."""
        p = pod("p")
        heart.filter(p, "a", "nowhere")
        assert error_of(heart.bind(p, "nowhere")) == Code.NODE_UNKNOWN

    def test_it_is_not_bound_if_it_never_passed(self, heart: Heart) -> None:
        assert error_of(heart.bind(pod("p"), "a")) == Code.NEVER_PROPOSED

    def test_by_resource_the_name_alone_counts(self) -> None:
        heart = Heart(resource="example.com/gpu")
        heart.see(node("a"))
        assert heart.filter(pod("none"), "a").pass_through
        wanted = pod("zero", requests=(("cpu", 1), ("example.com/gpu", 0)))
        assert not heart.filter(wanted, "a").pass_through

    def test_by_annotation(self) -> None:
        heart = Heart(annotation="waggle.dev/ours")
        heart.see(node("a"))
        assert heart.filter(pod("no"), "a").pass_through
        assert not heart.filter(pod("yes", annotations=(("waggle.dev/ours", ""),)), "a").pass_through
