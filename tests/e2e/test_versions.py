"""What docs/protocol.md says of differences between versions of kube-scheduler, each row of its table.

Here the gate is the extender. What differs about a pod's own status is in test_traps.py (traps 4 and 13).
"""

from __future__ import annotations

import time

from tests.e2e.gate import Call, Reply, on, refuse
from tests.e2e.matrix import NEWEST, Entry, both_schedulers
from tests.e2e.world import RealCluster, eventually

pytestmark = both_schedulers
WORLD = {"waggle": False, "extender": {"bindVerb": None}}


def refused(w: RealCluster, nodes: int = 2) -> None:
    """One pod that the extender refuses, whatever happens, and kube-scheduler at rest."""
    w.nodes(nodes)
    w.gate.play(on("filter", lambda call: refuse(call) if call.pod == "p" else None))
    w.pod("p")
    w.refused("p", "busy")
    w.quiet(seconds=1.5)
    w.gate.forget()
    w.gate.play(on("filter", lambda call: refuse(call) if call.pod == "p" else None))


def test_another_pod_that_is_bound_is_a_reason_to_try_again_or_not(w: RealCluster, entry: Entry) -> None:
    refused(w)
    w.pod("other")
    w.place("other")
    if entry == NEWEST:
        eventually(lambda: w.filters("p"), "it is tried again")
    else:
        w.quiet(seconds=2)
        assert w.filters("p") == 0


def test_a_pod_that_goes_is_a_reason_to_try_again(w: RealCluster) -> None:
    w.nodes(1)
    w.pod("other")
    w.place("other")
    w.gate.play(on("filter", refuse))
    w.pod("p")
    w.refused("p", "busy")
    w.quiet(seconds=1.5)
    w.gate.forget()
    w.delete("other", grace=0)
    eventually(lambda: w.filters("p"), "it is tried again")


def test_an_annotation_on_the_pod_is_a_reason_to_try_again(w: RealCluster) -> None:
    """What Waggle does where kube-scheduler sees no reason."""
    refused(w)
    w.patch("p", {"metadata": {"annotations": {"any": "change"}}})
    eventually(lambda: w.filters("p"), "it is tried again")


def test_a_quiet_scheduler_cuts_the_back_off_short_or_not(w: RealCluster, entry: Entry) -> None:
    refused(w)
    for i in range(20):
        w.patch("n0", {"metadata": {"labels": {"touched": str(i)}}}, "Node")
        time.sleep(0.1)
    if entry == NEWEST:
        assert w.filters("p") > 10
    else:
        assert w.filters("p") <= 3, "1, 2, 4 s"


def test_other_plugins_have_their_say_in_the_text_or_not(w: RealCluster, entry: Entry) -> None:
    w.nodes(2)
    w.gate.play(on("filter", refuse))
    w.pod("p")
    words = w.refused("p", "0/2 nodes are available: 2 busy.")
    assert "preemption: 0/2 nodes are available" in words
    assert ("no new claims to deallocate" in words) is (entry == NEWEST)


def test_victims_are_deleted_before_the_next_pod_is_looked_at_or_not(w: RealCluster, entry: Entry) -> None:
    w.nodes(1)
    w.pod("low", gpus=8, terminationGracePeriodSeconds=5)
    w.place("low")
    seen: list[bool] = []

    def look(call: Call) -> Reply | None:
        if call.verb == "filter" and call.pod == "next":
            low = w.get("low")
            seen.append(low is None or "deletionTimestamp" in low["metadata"])
        return None

    w.gate.play(look)
    w.pod("high", gpus=8, priority=1000)
    w.pod("next")
    w.place("next")
    assert seen
    if entry != NEWEST:
        assert seen[0]
