"""A node that somebody else nominated for a pod is tried first; Waggle takes it where that is right."""

from __future__ import annotations

from tests.e2e.matrix import every_entry
from tests.e2e.world import RealCluster

pytestmark = every_entry
GATES = [{"name": "example.com/not-yet"}]


def nominate(w: RealCluster, name: str, node: str, **more: object) -> None:
    """A pod that appears with a nomination: it is gated until that is written."""
    w.pod(name, schedulingGates=GATES, **more)
    w.patch(name, {"status": {"nominatedNodeName": node}}, part="status")
    w.patch(name, {"spec": {"schedulingGates": []}})


def test_the_nominated_node_is_taken_though_another_would_be_better(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("first", gpus=2)
    (other,) = {"n0", "n1"} - {w.place("first")}
    nominate(w, "p", other, gpus=2)
    assert w.place("p") == other
    assert [call.nodes for call in w.gate.calls_of("filter", "p")] == [[other]]


def test_a_nominated_node_that_is_full_costs_one_more_call_and_nothing_else(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("first", gpus=8)
    full = w.place("first")
    nominate(w, "p", full, gpus=8)
    assert w.place("p") not in ("", full)


def test_a_gang_member_that_is_nominated_elsewhere_keeps_its_seat(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("here", gpus=4, nodeName="n0")
    nominate(w, "g-0", "n0", gpus=8, gang=("g", 1))
    assert w.place("g-0") == "n1"
