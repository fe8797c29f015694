"""What the informers say: missed, twice, late, out of order; and the algorithm hears each thing once."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from extender.scheduling.commands import ReadPod
from extender.scheduling.events import NodeGone, NodeSeen, PodGone, PodSeen, Synced
from tests.support.heart import Heart, only
from tests.support.objects import node, pod


@pytest.fixture
def heart() -> Heart:
    heart = Heart()
    heart.see(node("a"), node("b"))
    return heart


def test_bound_pods_are_recovered_before_anything_is_served() -> None:
    heart = Heart(synced=False)
    heart.see(node("a"), pod("old", cpu=3000, on="a"))
    heart.handle(Synced())
    assert heart.filter(pod("p", cpu=2000), "a").node is None


def test_a_pod_may_be_bound_to_a_node_that_comes_later(heart: Heart) -> None:
    heart.see(pod("p", cpu=3000, on="late"))
    heart.see(node("late"))
    assert heart.algorithm.free("late") == 1000


def test_an_event_told_twice_changes_nothing(heart: Heart) -> None:
    p = pod("p", on="a")
    heart.see(p, p)
    assert list(heart.algorithm.allocated) == [p.uid]


def test_an_older_record_changes_nothing(heart: Heart) -> None:
    old, new = pod("p"), pod("p", on="a")
    heart.see(new, old)
    assert heart.state(new) == "Bound"


def test_a_record_of_a_deleted_pod_changes_nothing(heart: Heart) -> None:
    p = pod("p", on="a")
    heart.see(p)
    heart.handle(PodGone(p.namespace, p.name, p.uid))
    heart.see(pod("p", on="a"))
    assert heart.state(p) == "Unknown"
    assert heart.algorithm.free("a") == 4000


def test_a_deletion_that_comes_before_its_pod_counts(heart: Heart) -> None:
    p = pod("p", on="a")
    heart.handle(PodGone(p.namespace, p.name, p.uid))
    heart.see(p)
    assert heart.state(p) == "Unknown"


def test_a_deletion_without_a_uid_means_whoever_has_the_name(heart: Heart) -> None:
    p = pod("p", on="a")
    heart.see(p)
    heart.handle(PodGone(p.namespace, p.name))
    assert heart.state(p) == "Unknown"


def test_a_new_uid_under_the_same_name_is_a_deletion_and_a_birth(heart: Heart) -> None:
    heart.see(pod("p", cpu=3000, on="a"))
    heart.see(pod("p", uid="second"))
    assert heart.algorithm.free("a") == 4000
    assert list(heart.algorithm.unallocated) == ["second"]


def test_the_informers_word_ends_what_only_a_caller_claimed(heart: Heart) -> None:
    claimed = pod("p", uid="claimed")
    heart.filter(claimed, "a")
    heart.see(pod("p", uid="real", cpu=3000, on="a"))
    assert heart.state(claimed) == "Unknown"
    assert heart.algorithm.free("a") == 1000


def test_a_finished_pod_is_as_good_as_deleted(heart: Heart) -> None:
    p = pod("p", cpu=3000, on="a")
    heart.see(p, pod("p", cpu=3000, on="a", phase="Succeeded"))
    assert heart.state(p) == "Unknown"
    assert heart.algorithm.free("a") == 4000


def test_a_pod_resized_in_place_takes_its_new_room(heart: Heart) -> None:
    heart.see(pod("p", cpu=1000, on="a"), pod("p", cpu=3000, on="a"))
    assert heart.algorithm.free("a") == 1000


def test_a_pod_that_moves_is_believed(heart: Heart) -> None:
    heart.see(pod("p", cpu=3000, on="a"), pod("p", cpu=3000, on="b"))
    assert (heart.algorithm.free("a"), heart.algorithm.free("b")) == (4000, 1000)


def test_a_waiting_pod_that_changes_is_told_again(heart: Heart) -> None:
    heart.see(pod("p", cpu=1000), pod("p", cpu=2000))
    assert heart.algorithm.unallocated["uid-p"].requests == (("cpu", 2000),)


@pytest.mark.parametrize("how", [{"terminating": True}, {"gated": True}])
def test_a_waiting_pod_that_cannot_be_placed_now_is_not_waiting(heart: Heart, how: dict[str, bool]) -> None:
    p = pod("p")
    heart.see(p, pod("p", **how))
    assert heart.state(p) == "Unknown"
    assert not heart.algorithm.unallocated


def test_a_gated_pod_waits_once_its_gate_is_lifted(heart: Heart) -> None:
    p = pod("p", gated=True)
    heart.see(p, pod("p"))
    assert heart.state(p) == "Waiting"


def test_a_proposed_pod_that_is_being_deleted_gives_its_place_back(heart: Heart) -> None:
    p = pod("p")
    heart.filter(p, "a")
    heart.see(pod("p", terminating=True))
    assert heart.algorithm.free("a") == 4000


def test_a_pod_that_is_not_ours_any_more_stops_waiting() -> None:
    heart = Heart(annotation="ours")
    p = pod("p", annotations=(("ours", ""),))
    heart.see(p, pod("p"))
    assert heart.state(p) == "Unknown"


def test_somebody_elses_binding_of_a_proposed_pod_moves_it_there(heart: Heart) -> None:
    p = pod("p", cpu=3000)
    heart.filter(p, "a")
    heart.see(pod("p", cpu=3000, on="b"))
    assert (heart.algorithm.free("a"), heart.algorithm.free("b")) == (4000, 1000)


def test_a_node_with_a_new_uid_is_another_node(heart: Heart) -> None:
    heart.handle(NodeSeen(msgspec.structs.replace(node("a", cpu=8000), uid="new")))
    assert heart.algorithm.free("a") == 8000


def test_pods_of_a_deleted_node_stay_until_they_are_deleted(heart: Heart) -> None:
    heart.see(pod("p", cpu=3000, on="a"))
    heart.handle(NodeGone("a"))
    heart.see(node("a"))
    assert heart.algorithm.free("a") == 1000


def test_a_node_deleted_twice_is_deleted_once(heart: Heart) -> None:
    heart.handle(NodeGone("a"))
    heart.handle(NodeGone("a"))
    assert list(heart.algorithm.nodes) == ["b"]


@pytest.mark.parametrize("call", ["add_allocated_pod", "add_unallocated_pod"])
def test_an_algorithm_that_fails_to_hear_an_event_does_not_stop_the_heart(heart: Heart, call: str) -> None:
    heart.algorithm.fail.add(call)
    p = pod("p", on="a" if call == "add_allocated_pod" else "")
    heart.handle(PodSeen(p))
    assert heart.lifecycle.driver.faults == 1
    heart.handle(PodGone(p.namespace, p.name, p.uid))
    assert heart.state(p) == "Unknown"


def test_what_the_algorithm_failed_to_hear_is_told_with_the_next_event(heart: Heart) -> None:
    heart.algorithm.fail.add("add_allocated_pod")
    heart.see(pod("p", on="a"), pod("p", on="a"))
    assert list(heart.algorithm.allocated) == ["uid-p"]


def test_the_story_of_a_pod_names_every_step(heart: Heart) -> None:
    p = pod("p")
    heart.see(p)
    heart.filter(p, "a")
    heart.bind(p, "a")
    heart.see(pod("p", on="a"))
    told = " / ".join(heart.lifecycle.history(p.uid))
    for step in ("Unknown -> Waiting", "Waiting -> Binding on a", "is being written", "Binding -> Bound on a"):
        assert step in told


def test_a_bound_pod_that_only_a_read_has_shown_is_verified_until_the_informer_shows_it(heart: Heart) -> None:
    """Created, bound and deleted while the watch was down: no list will ever tell of its end."""
    p = pod("p")
    heart.filter(p, "a")
    heart.read(only(heart.tick(61), ReadPod).token, pod("p", on="a"))
    assert heart.state(p) == "Bound"
    heart.read(only(heart.tick(61), ReadPod).token, pod("p", on="a"))
    assert heart.state(p) == "Bound"
    heart.read(only(heart.tick(61), ReadPod).token, None)
    assert heart.state(p) == "Unknown"
    assert heart.algorithm.free("a") == 4000


def test_once_the_informer_shows_it_nothing_is_verified_any_more(heart: Heart) -> None:
    heart.filter(pod("p"), "a")
    heart.read(only(heart.tick(61), ReadPod).token, pod("p", on="a"))
    heart.see(pod("p", on="a"))
    assert not heart.tick(1000)


def test_a_node_as_it_was_before_is_late_news(heart: Heart) -> None:
    now, before = (replace(node("a", cpu=cpu), resource_version=version) for cpu, version in ((8000, "9"), (1000, "8")))
    heart.see(now, before)
    assert heart.lifecycle.state.cache.node("a") == now
    assert heart.lifecycle.counts["late_events", "node"] == 1
