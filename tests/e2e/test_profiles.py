"""Two schedulers: two profiles of one kube-scheduler, and a default kube-scheduler beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.scheduler_config import write
from tests.e2e.world import GPU, RealCluster, eventually, free_port, world


@pytest.fixture
def two_profiles(plane: ControlPlane, programs: Mapping[str, Path]) -> Iterator[RealCluster]:
    profiles = ("default-scheduler", "gpu-scheduler")
    settings = {"pods": {"scheduler_names": ["gpu-scheduler"]}}
    with world(plane, programs, profiles=profiles, settings=settings, folder="two-profiles") as w:
        yield w


def test_pods_of_both_profiles_are_sent_and_only_ours_are_judged(two_profiles: RealCluster) -> None:
    w = two_profiles
    w.nodes(2)
    w.pod("ours", gpus=1, schedulerName="gpu-scheduler")
    w.pod("others", gpus=1)
    w.all_placed(["ours", "others"])
    assert len(w.gate.calls_of("filter", "ours")[0].answer["NodeNames"]) == 1
    assert len(w.gate.calls_of("filter", "others")[0].answer["NodeNames"]) == 2


def test_what_others_take_is_counted(two_profiles: RealCluster) -> None:
    w = two_profiles
    w.nodes(1)
    w.pod("others", gpus=8)
    w.place("others")
    w.pod("ours", gpus=1, schedulerName="gpu-scheduler")
    w.refused("ours")
    w.delete("others", grace=0)
    assert w.place("ours") == "n0"


def test_a_second_kube_scheduler_beside_the_clusters_own(plane: ControlPlane, programs: Mapping[str, Path]) -> None:
    """As on a managed cluster: the first one knows nothing of Waggle, both see the same nodes."""
    managed = {"managedResources": [{"name": GPU, "ignoredByScheduler": False}]}
    with world(plane, programs, profiles=("gpu-scheduler",), extender=managed, folder="second-scheduler") as w:
        config = write(w.folder / "first.yaml", kubeconfig=plane.kubeconfig("kube-scheduler"), url="")
        flags = ["--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={w.folder}"]
        w.run("first-scheduler", [programs["kube-scheduler"], f"--config={config}", *flags])
        w.nodes(2, gpus=4)
        ours = [f"ours{i}" for i in range(4)]
        theirs = [f"theirs{i}" for i in range(4)]
        # One after the other: two kube-schedulers that decide at once can overcommit a node, which is not the question.
        for mine, other in zip(ours, theirs, strict=True):
            w.pod(mine, gpus=1, schedulerName="gpu-scheduler")
            w.place(mine)
            w.pod(other, gpus=1)
            w.place(other)
        assert {call.pod for call in w.gate.calls} == set(ours)
        w.pod("one-too-many", gpus=1, schedulerName="gpu-scheduler")
        w.refused("one-too-many")


def test_pods_without_the_managed_resource_do_not_wait_for_waggle(
    plane: ControlPlane, programs: Mapping[str, Path]
) -> None:
    managed = {"managedResources": [{"name": GPU, "ignoredByScheduler": False}]}
    with world(plane, programs, extender=managed, folder="managed") as w:
        w.nodes(1)
        assert w.waggle is not None
        w.waggle.kill()
        w.pod("web")
        w.pod("train", gpus=1)
        assert w.place("web") == "n0"
        w.refused("train")
        assert not w.gate.calls_of("filter", "web")
        w.start_waggle()
        assert w.place("train") == "n0"


def test_a_pod_that_asks_for_the_resource_in_a_limit_or_init_container_only_is_sent(
    plane: ControlPlane, programs: Mapping[str, Path]
) -> None:
    managed = {"managedResources": [{"name": GPU, "ignoredByScheduler": False}]}
    with world(plane, programs, extender=managed, folder="limit-only") as w:
        w.nodes(1)
        container = {"name": "main", "image": "app", "resources": {"limits": {GPU: "0"}}}
        w.create({"kind": "Pod", "metadata": {"name": "zero"}, "spec": {"containers": [container]}})
        plain = {"name": "main", "image": "app"}
        spec = {"containers": [plain], "initContainers": [{**container, "name": "first"}]}
        w.create({"kind": "Pod", "metadata": {"name": "init"}, "spec": spec})
        w.all_placed(["zero", "init"])
        eventually(
            lambda: {call.pod for call in w.gate.calls_of("bind")} == {"zero", "init"},
            "a quantity of 0 counts, and so does an init container",
        )
