"""Kubernetes' own gangs (PodGroups, alpha in 1.36) together with Waggle: what we promise, and what not.

Promised: a PodGroup whose pods carry Waggle's annotations too starts as a whole; filter calls that no bind follows,
of which kube-scheduler makes many for such a group, leak nothing; a group that does not fit keeps nobody else out.
"""

from __future__ import annotations

from tests.e2e.world import RealCluster, eventually

WORLD = {"scheduler_flags": ["--feature-gates=GenericWorkload=true,GangScheduling=true"]}


def group(w: RealCluster, name: str, size: int, *, annotated: bool = True, gpus: int = 8) -> list[str]:
    w.create(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
        }
    )
    names = [f"{name}-{i}" for i in range(size)]
    for each in names:
        gang = (name, size) if annotated else None
        w.pod(each, gpus=gpus, gang=gang, schedulingGroup={"podGroupName": name})
    return names


def test_a_pod_group_with_waggles_annotations_starts_as_a_whole(w: RealCluster) -> None:
    w.nodes(3)
    assert len(set(w.all_placed(group(w, "a", 3)))) == 3


def test_a_pod_group_without_annotations_is_held_together_by_kube_scheduler(w: RealCluster) -> None:
    w.nodes(3)
    assert len(set(w.all_placed(group(w, "b", 3, annotated=False)))) == 3


def test_a_pod_group_that_does_not_fit_keeps_nobody_out(w: RealCluster) -> None:
    w.nodes(2)
    names = group(w, "big", 3)
    for name in names:
        w.refused(name)
    assert w.places(names) == [""] * 3
    w.pod("single", gpus=8)
    w.place("single")
    eventually(lambda: all(not node for node in w.places(names)), "nobody of the group runs")
