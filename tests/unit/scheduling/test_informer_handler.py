"""What the informers say: missed, twice, late, out of order; and the algorithm hears each thing once."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from extender.scheduling.commands import ReadPod
from extender.scheduling.events import NodeGone, NodeSeen, PodGone, PodSeen, Synced
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.objects import node, pod


@pytest.fixture
def engine() -> EngineHarness:
    engine = EngineHarness()
    engine.see(node("a"), node("b"))
    return engine


def test_bound_pods_are_recovered_before_anything_is_served() -> None:
    engine = EngineHarness(synced=False)
    engine.see(node("a"), pod("old", cpu=3000, on="a"))
    engine.handle(Synced())
    assert engine.filter(pod("p", cpu=2000), "a").node is None


def test_a_pod_may_be_bound_to_a_node_that_comes_later(engine: EngineHarness) -> None:
    engine.see(pod("p", cpu=3000, on="late"))
    engine.see(node("late"))
    assert engine.algorithm.free("late") == 1000


def test_an_event_told_twice_changes_nothing(engine: EngineHarness) -> None:
    p = pod("p", on="a")
    engine.see(p, p)
    assert list(engine.algorithm.allocated) == [p.uid]


def test_an_older_record_changes_nothing(engine: EngineHarness) -> None:
    old, new = pod("p"), pod("p", on="a")
    engine.see(new, old)
    assert engine.state(new) == "Bound"


def test_a_record_of_a_deleted_pod_changes_nothing(engine: EngineHarness) -> None:
    p = pod("p", on="a")
    engine.see(p)
    engine.handle(PodGone(p.namespace, p.name, p.uid))
    engine.see(pod("p", on="a"))
    assert engine.state(p) == "Unknown"
    assert engine.algorithm.free("a") == 4000


def test_a_deletion_that_comes_before_its_pod_counts(engine: EngineHarness) -> None:
    p = pod("p", on="a")
    engine.handle(PodGone(p.namespace, p.name, p.uid))
    engine.see(p)
    assert engine.state(p) == "Unknown"


def test_a_deletion_without_a_uid_means_whoever_has_the_name(engine: EngineHarness) -> None:
    p = pod("p", on="a")
    engine.see(p)
    engine.handle(PodGone(p.namespace, p.name))
    assert engine.state(p) == "Unknown"


def test_a_new_uid_under_the_same_name_is_a_deletion_and_a_birth(engine: EngineHarness) -> None:
    engine.see(pod("p", cpu=3000, on="a"))
    engine.see(pod("p", uid="second"))
    assert engine.algorithm.free("a") == 4000
    assert list(engine.algorithm.unallocated) == ["second"]


def test_the_informers_word_ends_what_only_a_caller_claimed(engine: EngineHarness) -> None:
    claimed = pod("p", uid="claimed")
    engine.filter(claimed, "a")
    engine.see(pod("p", uid="real", cpu=3000, on="a"))
    assert engine.state(claimed) == "Unknown"
    assert engine.algorithm.free("a") == 1000


def test_a_finished_pod_is_as_good_as_deleted(engine: EngineHarness) -> None:
    p = pod("p", cpu=3000, on="a")
    engine.see(p, pod("p", cpu=3000, on="a", phase="Succeeded"))
    assert engine.state(p) == "Unknown"
    assert engine.algorithm.free("a") == 4000


def test_a_pod_resized_in_place_takes_its_new_room(engine: EngineHarness) -> None:
    engine.see(pod("p", cpu=1000, on="a"), pod("p", cpu=3000, on="a"))
    assert engine.algorithm.free("a") == 1000


def test_a_pod_that_moves_is_believed(engine: EngineHarness) -> None:
    engine.see(pod("p", cpu=3000, on="a"), pod("p", cpu=3000, on="b"))
    assert (engine.algorithm.free("a"), engine.algorithm.free("b")) == (4000, 1000)


def test_a_waiting_pod_that_changes_is_told_again(engine: EngineHarness) -> None:
    engine.see(pod("p", cpu=1000), pod("p", cpu=2000))
    assert engine.algorithm.unallocated["uid-p"].requests == (("cpu", 2000),)


@pytest.mark.parametrize("how", [{"terminating": True}, {"gated": True}])
def test_a_waiting_pod_that_cannot_be_placed_now_is_not_waiting(engine: EngineHarness, how: dict[str, bool]) -> None:
    p = pod("p")
    engine.see(p, pod("p", **how))
    assert engine.state(p) == "Unknown"
    assert not engine.algorithm.unallocated


def test_a_gated_pod_waits_once_its_gate_is_lifted(engine: EngineHarness) -> None:
    p = pod("p", gated=True)
    engine.see(p, pod("p"))
    assert engine.state(p) == "Waiting"


def test_a_proposed_pod_that_is_being_deleted_gives_its_place_back(engine: EngineHarness) -> None:
    p = pod("p")
    engine.filter(p, "a")
    engine.see(pod("p", terminating=True))
    assert engine.algorithm.free("a") == 4000


def test_a_pod_that_is_not_ours_any_more_stops_waiting() -> None:
    engine = EngineHarness(annotation="ours")
    p = pod("p", annotations=(("ours", ""),))
    engine.see(p, pod("p"))
    assert engine.state(p) == "Unknown"


def test_somebody_elses_binding_of_a_proposed_pod_moves_it_there(engine: EngineHarness) -> None:
    p = pod("p", cpu=3000)
    engine.filter(p, "a")
    engine.see(pod("p", cpu=3000, on="b"))
    assert (engine.algorithm.free("a"), engine.algorithm.free("b")) == (4000, 1000)


def test_a_node_with_a_new_uid_is_another_node(engine: EngineHarness) -> None:
    engine.handle(NodeSeen(msgspec.structs.replace(node("a", cpu=8000), uid="new")))
    assert engine.algorithm.free("a") == 8000


def test_pods_of_a_deleted_node_stay_until_they_are_deleted(engine: EngineHarness) -> None:
    engine.see(pod("p", cpu=3000, on="a"))
    engine.handle(NodeGone("a"))
    engine.see(node("a"))
    assert engine.algorithm.free("a") == 1000


def test_a_node_deleted_twice_is_deleted_once(engine: EngineHarness) -> None:
    engine.handle(NodeGone("a"))
    engine.handle(NodeGone("a"))
    assert list(engine.algorithm.nodes) == ["b"]


@pytest.mark.parametrize("call", ["add_allocated_pod", "add_unallocated_pod"])
def test_an_algorithm_that_fails_to_hear_an_event_does_not_stop_the_engine(engine: EngineHarness, call: str) -> None:
    engine.algorithm.fail.add(call)
    p = pod("p", on="a" if call == "add_allocated_pod" else "")
    engine.handle(PodSeen(p))
    assert engine.machine.driver.faults == 1
    engine.handle(PodGone(p.namespace, p.name, p.uid))
    assert engine.state(p) == "Unknown"


def test_what_the_algorithm_failed_to_hear_is_told_with_the_next_event(engine: EngineHarness) -> None:
    engine.algorithm.fail.add("add_allocated_pod")
    engine.see(pod("p", on="a"), pod("p", on="a"))
    assert list(engine.algorithm.allocated) == ["uid-p"]


def test_the_story_of_a_pod_names_every_step(engine: EngineHarness) -> None:
    p = pod("p")
    engine.see(p)
    engine.filter(p, "a")
    engine.bind(p, "a")
    engine.see(pod("p", on="a"))
    told = " / ".join(engine.machine.history(p.uid))
    for step in ("Unknown -> Waiting", "Waiting -> Binding on a", "is being written", "Binding -> Bound on a"):
        assert step in told


def test_a_bound_pod_that_only_a_read_has_shown_is_verified_until_the_informer_shows_it(engine: EngineHarness) -> None:
    """Created, bound and deleted while the watch was down: no list will ever tell of its end."""
    p = pod("p")
    engine.filter(p, "a")
    engine.read(only(engine.tick(61), ReadPod).token, pod("p", on="a"))
    assert engine.state(p) == "Bound"
    engine.read(only(engine.tick(61), ReadPod).token, pod("p", on="a"))
    assert engine.state(p) == "Bound"
    engine.read(only(engine.tick(61), ReadPod).token, None)
    assert engine.state(p) == "Unknown"
    assert engine.algorithm.free("a") == 4000


def test_once_the_informer_shows_it_nothing_is_verified_any_more(engine: EngineHarness) -> None:
    engine.filter(pod("p"), "a")
    engine.read(only(engine.tick(61), ReadPod).token, pod("p", on="a"))
    engine.see(pod("p", on="a"))
    assert not engine.tick(1000)


def test_a_node_as_it_was_before_is_late_news(engine: EngineHarness) -> None:
    now, before = (replace(node("a", cpu=cpu), resource_version=version) for cpu, version in ((8000, "9"), (1000, "8")))
    engine.see(now, before)
    assert engine.machine.state.cache.node("a") == now
    assert engine.machine.counts["late_events", "node"] == 1


def test_a_read_that_is_older_than_the_last_one_does_not_make_late_events_count(engine: EngineHarness) -> None:
    read, stale, event = (replace(pod("p", on="a"), resource_version=version) for version in ("9", "7", "8"))
    engine.filter(pod("p"), "a")
    engine.read(only(engine.tick(61), ReadPod).token, read)
    engine.read(only(engine.tick(61), ReadPod).token, stale)
    engine.see(event)
    assert engine.machine.counts["late_events", "pod"] == 2
    assert engine.machine.state.cache.pod("uid-p") == read
