"""Preemption through kube-scheduler: it asks /preempt, evicts whom Waggle names, and nominates the node.

Here kube-scheduler counts the GPUs too (`ignoredByScheduler` is false): only so does it see that evictions would help.
"""

from __future__ import annotations

from tests.e2e.matrix import Entry, every_entry
from tests.e2e.world import RealCluster, eventually

pytestmark = every_entry


def fill(w: RealCluster, nodes: int, *, priority: int = 0, **more: object) -> list[str]:
    w.nodes(nodes)
    names = [f"low{i}" for i in range(nodes)]
    for name in names:
        w.pod(name, gpus=8, priority=priority, **more)
    w.all_placed(names)
    w.gate.forget()
    return names


def test_the_victim_goes_and_the_preemptor_takes_its_place(w: RealCluster) -> None:
    low = fill(w, 2)
    w.pod("high", gpus=8, priority=1000)
    node = w.place("high")
    assert len(w.list("Pod")) == 2
    assert w.node_of(low[int(node[1])]) == ""
    [victim] = {event["involvedObject"]["name"] for event in w.list("Event") if event["reason"] == "Preempted"}
    assert victim == f"low{node[1]}"


def test_the_node_is_nominated_while_the_victim_goes_and_asked_about_alone(w: RealCluster) -> None:
    fill(w, 2, terminationGracePeriodSeconds=2)
    w.pod("high", gpus=8, priority=1000)
    nominated = eventually(lambda: (w.get("high") or {})["status"].get("nominatedNodeName"), "a node is nominated")
    assert w.place("high") == nominated
    last = w.gate.calls_of("filter", "high")[-1]
    assert last.nodes == [nominated]


def test_only_strictly_lower_priorities_have_to_go(w: RealCluster) -> None:
    fill(w, 2, priority=1000)
    w.pod("equal", gpus=8, priority=1000)
    w.refused("equal")
    w.quiet()
    assert len(w.list("Pod")) == 3
    assert w.node_of("equal") == ""


def test_the_cheapest_victim_is_taken(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("mid", gpus=8, priority=500)
    w.pod("low", gpus=8, priority=100)
    places = w.all_placed(["mid", "low"])
    w.pod("high", gpus=8, priority=1000)
    assert w.place("high") == places[1]
    assert w.node_of("mid") == places[0]


def test_no_more_pods_than_needed_have_to_go(w: RealCluster) -> None:
    w.nodes(1)
    names = [f"small{i}" for i in range(4)]
    for name in names:
        w.pod(name, gpus=2)
    w.all_placed(names)
    w.pod("high", gpus=4, priority=1000)
    w.place("high")
    assert sum(map(bool, w.places(names))) == 2


def test_a_gang_takes_the_room_of_others_as_a_whole(w: RealCluster, entry: Entry) -> None:
    fill(w, 3)
    gang = w.gang("urgent", 2, gpus=8, priority=1000)
    assert len(set(w.all_placed(gang))) == 2
    eventually(lambda: len(w.list("Pod")) == 3, lambda: f"one of three others is left\n{w.story()}")


def test_a_gang_that_would_not_fit_even_then_evicts_nobody(w: RealCluster) -> None:
    low = fill(w, 2)
    for name in w.gang("urgent", 3, gpus=8, priority=1000):
        w.refused(name)
    w.quiet()
    assert all(w.places(low))


def test_a_preemptor_that_is_deleted_leaves_the_room_to_others(w: RealCluster) -> None:
    fill(w, 1, terminationGracePeriodSeconds=2)
    w.pod("high", gpus=8, priority=1000)
    eventually(lambda: (w.get("high") or {})["status"].get("nominatedNodeName"), "a node is nominated")
    w.delete("high", grace=0)
    w.pod("next", gpus=8)
    assert w.place("next") == "n0"


def test_a_pod_that_must_not_preempt_does_not(w: RealCluster) -> None:
    low = fill(w, 1)
    w.pod("polite", gpus=8, priority=2000, preempts=False)
    w.refused("polite")
    w.quiet()
    assert all(w.places(low))
    assert not w.gate.calls_of("preempt")
