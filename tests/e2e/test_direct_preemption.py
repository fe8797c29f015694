"""Preemption by Waggle itself (mode direct): through the Eviction API, for a whole gang, whatever is in between.

Nobody tells kube-scheduler whom to evict here: /preempt is answered with nobody, and it has to find the room free.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.matrix import both_schedulers
from tests.e2e.world import RealCluster, eventually

pytestmark = both_schedulers


@pytest.fixture(autouse=True)
def _direct(w: RealCluster) -> Iterator[None]:
    assert w.waggle is not None
    w.waggle.stop()
    w.start_waggle(preemption={"mode": "direct", "retry_seconds": 2})
    yield
    w.waggle.stop()
    w.start_waggle(preemption={})


def fill(w: RealCluster, nodes: int, **more: object) -> list[str]:
    """Two pods on each node, four GPUs each."""
    w.nodes(nodes)
    names = [f"low{i}" for i in range(2 * nodes)]
    for name in names:
        w.pod(name, gpus=4, **more)
    w.all_placed(names)
    w.gate.forget()
    return names


def evicted(w: RealCluster, names: list[str]) -> list[str]:
    """Who is gone, or going."""
    found = {name: w.get(name) for name in names}
    return [name for name, pod in found.items() if pod is None or pod["metadata"].get("deletionTimestamp")]


def test_a_single_pod_has_its_victims_evicted_on_one_node(w: RealCluster) -> None:
    low = fill(w, 2)
    w.pod("high", gpus=8, priority=1000)
    node = w.place("high")
    assert len(evicted(w, low)) == 2
    assert node not in w.places(low)


def test_a_gang_of_four_needs_victims_on_two_nodes(w: RealCluster) -> None:
    low = fill(w, 3)
    gang = w.gang("urgent", 4, gpus=4, priority=1000)
    assert len(set(w.all_placed(gang))) == 2
    assert len(evicted(w, low)) == 4


def test_a_budget_protects_and_the_preemptor_says_so(w: RealCluster) -> None:
    low = fill(w, 1, labels={"app": "low"})
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "low"}}}
    w.create({"kind": "PodDisruptionBudget", "metadata": {"name": "low"}, "spec": spec})
    eventually(
        lambda: (w.get("low", "PodDisruptionBudget") or {}).get("status", {}).get("expectedPods"), "it is counted"
    )
    w.pod("high", gpus=8, priority=1000)
    eventually(
        lambda: (w.explain("high").get("reason") or {}).get("code") == "VictimProtected",
        lambda: f"it says why: {w.explain('high')}",
    )
    assert evicted(w, low) == []
    w.delete("low", "PodDisruptionBudget")
    w.place("high")


def test_waggle_is_killed_while_victims_go(w: RealCluster) -> None:
    low = fill(w, 3, terminationGracePeriodSeconds=3)
    gang = w.gang("urgent", 4, gpus=4, priority=1000)
    eventually(lambda: evicted(w, low), "the first victim is going")
    assert w.waggle is not None
    w.waggle.kill()
    w.start_waggle()
    w.all_placed(gang)
    assert len(evicted(w, low)) == 4
