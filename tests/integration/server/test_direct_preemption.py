"""Waggle evicts by itself: over HTTP, with the Eviction API and its disruption budgets, and across a crash."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.local_cluster import LocalCluster, world

SLOW = {"stop_delay": 0.6}
GPU = "example.com/gpu"


def gpus(count: int) -> list[dict[str, Any]]:
    amounts = {GPU: str(count)}
    return [{"name": "c", "image": "pause", "resources": {"requests": amounts, "limits": amounts}}]


def fill(w: LocalCluster) -> list[str]:
    names = [f"low{i}" for i in range(4)]
    for name in names:
        w.pod(name, cpu="2", terminationGracePeriodSeconds=30)
    w.until(lambda: w.all_bound(names))
    w.settle()
    return names


def evicted(w: LocalCluster) -> int:
    return int(w.waggle.machine.counts["victims", "evicted"])


def protect(w: LocalCluster, names: list[str]) -> None:
    """A disruption budget that needs all of them."""
    for name in names:
        pod = w.get(name)
        pod["metadata"]["labels"] = {"app": "low"}
        w.cluster.apply(pod)
        w.until(lambda name=name: "Ready" in str(w.get(name)["status"].get("conditions")))
    budget = {"minAvailable": len(names), "selector": {"matchLabels": {"app": "low"}}}
    metadata = {"name": "keep", "namespace": "default"}
    w.cluster.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget})


def test_a_gang_gets_the_room_of_victims_on_two_nodes_at_once():
    with world(nodes=2, scheduler=True, apiserver=SLOW) as w:
        low = fill(w)
        gang = w.gang("high", 4, cpu="2", priority=1000)
        w.until(lambda: w.all_bound(gang))
        assert evicted(w) == len(low)
        assert not any(w.cluster.get("pods", name) for name in low)


def test_what_kube_scheduler_does_not_count_is_preempted_all_the_same():
    unseen = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}
    with world(nodes=1, scheduler=True, extender=unseen) as w:
        w.pod("low", containers=gpus(8))
        w.until(lambda: w.node_of("low"))
        w.settle()
        w.pod("high", priority=1000, containers=gpus(8))
        w.until(lambda: w.node_of("high") == "n0")


def test_a_plain_pod_is_left_to_kube_scheduler():
    with world(nodes=1, scheduler=True) as w:
        w.pod("low", cpu="4")
        w.until(lambda: w.node_of("low"))
        w.settle()
        w.pod("high", cpu="4", priority=1000)
        w.until(lambda: w.node_of("high") == "n0")
        assert evicted(w) == 0


def test_a_budget_protects_its_pods_nobody_goes_and_later_it_is_tried_again():
    with world(nodes=2, scheduler=True, preemption={"mode": "auto", "retry_seconds": 1}) as w:
        low = fill(w)
        protect(w, low)
        gang = w.gang("high", 4, cpu="2", priority=1000)
        w.until(lambda: w.waggle.machine.counts["eviction_checks", "rejected"])
        w.until(lambda: any(e["reason"] == "VictimProtected" for e in w.cluster.objects("events")))
        w.settle()

        assert evicted(w) == 0
        assert not any(w.get(name)["metadata"].get("deletionTimestamp") for name in low)
        told = w.waggle.client.get("/v1/explain/default/high-0").text
        assert "VictimProtected" in told

        w.cluster.delete("poddisruptionbudgets", "keep")
        w.until(lambda: w.all_bound(gang))


def test_after_a_crash_in_the_middle_the_preemption_goes_on_and_nobody_goes_in_vain():
    with world(nodes=2, scheduler=True, apiserver={"stop_delay": 2.0}) as w:
        low = fill(w)
        gang = w.gang("high", 3, cpu="2", priority=1000)
        w.until(lambda: evicted(w))
        w.stop_waggle()
        w.pod("thief", cpu="2")
        w.start_waggle()
        w.until(lambda: w.all_bound(gang))
        w.settle()
        assert sum(w.cluster.get("pods", name) is not None for name in low) == 1
        assert not w.node_of("thief")
