"""What a user sees of a pod that waits, and that waiting costs nothing: no hot loop, and no lost moment."""

from __future__ import annotations

import time

from extender.scheduling.writes.requeue import ANNOTATION
from tests.e2e.matrix import Entry, every_entry
from tests.e2e.world import GPU, RealCluster, eventually

pytestmark = every_entry
FULL = f"insufficient {GPU}"


def full(w: RealCluster, nodes: int = 2) -> None:
    """A cluster without a free GPU, as Waggle counts; kube-scheduler does not count them."""
    w.nodes(nodes)
    for i in range(nodes):
        w.pod(f"full{i}", gpus=8)
    w.all_placed([f"full{i}" for i in range(nodes)])
    # To start running is news of a bound pod, for which refused ones would be tried again.
    eventually(lambda: all(pod["status"]["phase"] == "Running" for pod in w.list("Pod")), "all run")
    w.gate.forget()


#: Waggle alone counts the GPUs, so that every refusal is its own.
WORLD = {"extender": {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}}


def test_condition_event_and_explanation_say_the_same(w: RealCluster) -> None:
    full(w)
    w.pod("p", gpus=1)
    message = w.refused("p", FULL)
    assert w.condition("p")["reason"] == "Unschedulable"
    assert "0/2 nodes are available: 2 " in message
    event = eventually(lambda: w.events("p", "FailedScheduling"), "the event is written")[0]
    assert FULL in (event.get("message") or event.get("note"))
    assert w.explain("p")["reason"]["text"] in message


def test_a_refused_pod_is_filtered_at_most_twice(w: RealCluster) -> None:
    full(w)
    w.pod("p", gpus=1)
    w.refused("p", FULL)
    w.quiet(seconds=1.5)
    assert 1 <= w.filters("p") <= 2


def test_a_change_that_does_not_help_costs_at_most_two_filters(w: RealCluster) -> None:
    full(w)
    w.pod("p", gpus=1)
    w.refused("p", FULL)
    w.quiet()
    for i in range(2):
        w.gate.forget()
        w.patch("n0", {"metadata": {"labels": {"touched": str(i)}}}, "Node")
        eventually(lambda: w.filters("p"), "the change is a reason to try again")
        w.quiet()
        assert w.filters("p") <= 2


def test_fifty_waiting_pods_do_not_wake_one_another(w: RealCluster) -> None:
    full(w)
    names = [f"p{i}" for i in range(50)]
    for name in names:
        w.pod(name, gpus=1)
    for name in names:
        w.refused(name, FULL)
    w.quiet(seconds=1.5)
    # On a busy machine kube-scheduler asks about a pod before our informer shows it. No preemption is planned for a pod
    # that nobody else knows, so Waggle looks again when it is shown, and has that pod (no other) tried once more.
    nudged = [pod for pod in w.list("Pod") if ANNOTATION in (pod["metadata"].get("annotations") or {})]
    assert w.filters(*names) <= 2 * len(names) + len(nudged)
    assert len(nudged) < len(names) / 2


def test_it_is_placed_as_soon_as_a_pod_goes(w: RealCluster, entry: Entry, record_property) -> None:
    full(w)
    w.pod("p", gpus=1)
    w.refused("p", FULL)
    w.quiet()
    begun = time.monotonic()
    w.delete("full1", grace=0)
    assert w.place("p") == "n1"
    record_property("measured", f"{entry.name}: pod bound {time.monotonic() - begun:.2f} s after a pod was deleted")


def test_it_is_placed_as_soon_as_a_node_comes(w: RealCluster, entry: Entry, record_property) -> None:
    full(w)
    w.pod("p", gpus=1)
    w.refused("p", FULL)
    w.quiet()
    begun = time.monotonic()
    w.node("new")
    assert w.place("p") == "new"
    record_property("measured", f"{entry.name}: pod bound {time.monotonic() - begun:.2f} s after a node was added")


def test_a_pod_that_ended_makes_room(w: RealCluster) -> None:
    full(w)
    w.pod("p", gpus=1)
    w.refused("p", FULL)
    w.patch("full0", {"status": {"phase": "Succeeded"}}, part="status")
    assert w.place("p") == "n0"


def test_what_never_fits_says_what_is_short(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("p", gpus=9)
    w.refused("p", f"node never has enough {GPU}")
    assert w.explain("p")["reason"]["code"] == "NodeLacksResource"
