"""Pods and nodes of a set come and go on the real control plane.

Vreplicas leave what goes for good, and stay on pods that are away for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.hands import eventually
from tests.e2e.vpods import ZONE, VPodCluster, vpod_cluster

#: Each vpod wants one vreplica on each pod.
PODS, CAPACITY, VPODS = 6, 20, 10


@pytest.fixture(scope="module")
def shared(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VPodCluster]:
    with vpod_cluster(plane, programs, tmp_path_factory.mktemp("vpods"), servers=("a",), zones=2) as w:
        yield w


@pytest.fixture
def w(shared: VPodCluster) -> Iterator[VPodCluster]:
    """The nodes n0 to n3, in two zones in turn."""
    try:
        yield shared
        shared.check()
    finally:
        shared.clear()
        shared.zoned_nodes(4, zones=2)


def fill(w: VPodCluster, **spec: Any) -> dict[str, dict[str, int]]:
    """Six pods with room for twice as much, and ten vpods of six; their placements at rest."""
    whole = {"replicas": PODS, "capacity": CAPACITY, "minReplicas": PODS, "maxReplicas": PODS, "zones": False, **spec}
    w.fleet(**whole)
    for number in range(VPODS):
        w.vpod(f"v{number}", PODS)
    return w.rest()


def hosted(w: VPodCluster, node: str) -> int:
    """Vreplicas on pods of a node."""
    held = w.held()
    return sum(held.get(pod, 0) for pod in w.pods_on(node))


def test_a_cordoned_node_is_left_before_its_pods_are_evicted(w: VPodCluster) -> None:
    fill(w)
    pods, number = w.pods_on("n1"), hosted(w, "n1")
    assert pods
    assert number
    w.kubectl("cordon n1")
    eventually(lambda: not hosted(w, "n1"), lambda: str(w.held()))
    w.rest()
    assert w.moves() == number
    w.kubectl("drain n1 --force --ignore-daemonsets --delete-emptydir-data --timeout=30s")
    w.ready("fleet", PODS)
    assert not w.pods_on("n1")
    w.rest()
    assert not w.uneven()
    assert all(w.held().get(pod) for pod in pods)  # they are elsewhere, and used again
    assert w.moves() <= 2 * number
    w.laws()


def test_a_drain_at_once_loses_nothing(w: VPodCluster) -> None:
    """The eviction follows the cordon by some milliseconds."""
    fill(w)
    number = hosted(w, "n2")
    w.kubectl("drain n2 --force --ignore-daemonsets --delete-emptydir-data --timeout=30s")
    w.ready("fleet", PODS)
    w.rest()
    assert not w.uneven()
    assert w.moves() <= 2 * number
    w.kubectl("uncordon n2")
    w.rest()
    w.laws()


def test_a_full_set_grows_before_a_cordoned_node_is_left(w: VPodCluster) -> None:
    """What finds no room elsewhere works where it is until new pods are there."""
    w.fleet(replicas=4, capacity=10)
    for number in range(10):
        w.vpod(f"v{number}", 4)
    w.rest()
    assert hosted(w, "n1")
    w.kubectl("cordon n1")
    eventually(lambda: w.replicas() > 4 and not hosted(w, "n1"), lambda: str(w.held()))
    w.rest()
    assert sum(w.held().values()) == 40
    w.kubectl("uncordon n1")
    eventually(lambda: w.replicas() == 4, lambda: f"{w.replicas()} replicas")
    w.rest()
    w.laws()


def test_a_taint_that_drives_pods_away_drives_vreplicas_away(w: VPodCluster) -> None:
    fill(w)
    number = hosted(w, "n0")
    w.kubectl("taint node n0 broken=yes:NoExecute")
    eventually(lambda: not hosted(w, "n0"), lambda: str(w.held()))
    w.kubectl("taint node n0 broken-")
    w.rest()
    assert hosted(w, "n0")
    assert not w.uneven()
    assert w.moves() <= 2 * number
    w.laws()


def test_a_roll_out_moves_nothing(w: VPodCluster) -> None:
    before = fill(w, unreadySeconds=60)
    w.kubectl("rollout restart statefulset/fleet")
    w.kubectl("rollout status statefulset/fleet --timeout=60s")
    assert w.rest() == before
    assert w.moves() == 0
    w.kubectl("delete pod fleet-1 fleet-4 --force --grace-period=0")
    w.ready("fleet", PODS)
    assert w.rest() == before
    assert w.moves() == 0
    w.laws()


def test_a_roll_out_of_a_set_that_waits_for_no_pod_loses_nothing(w: VPodCluster) -> None:
    fill(w, unreadySeconds=0)
    w.kubectl("rollout restart statefulset/fleet")
    w.kubectl("rollout status statefulset/fleet --timeout=60s")
    w.rest()
    assert not w.uneven()
    w.laws()


def test_the_vreplicas_of_a_node_that_is_gone_are_placed_elsewhere(w: VPodCluster) -> None:
    fill(w)
    pods, number = w.pods_on("n3"), hosted(w, "n3")
    w.kubectl("delete node n3")
    eventually(lambda: not any(w.held().get(pod) for pod in pods), lambda: str(w.held()))
    w.rest()
    assert w.moves() == number
    w.kubectl(f"delete pod {' '.join(pods)} --force --grace-period=0")
    w.ready("fleet", PODS)
    w.rest()
    assert not w.uneven()
    assert all(w.held().get(pod) for pod in pods)
    w.laws()


def test_an_annotated_pod_is_emptied_and_used_again(w: VPodCluster) -> None:
    fill(w)
    w.kubectl("annotate pod fleet-2 eventing.knative.dev/unschedulable=true")
    eventually(lambda: "fleet-2" not in w.held(), lambda: str(w.held()))
    w.rest()
    w.kubectl("annotate pod fleet-2 eventing.knative.dev/unschedulable-")
    eventually(lambda: "fleet-2" in w.held(), lambda: str(w.held()))
    w.rest()
    assert not w.uneven()
    w.laws()


def test_vreplicas_that_move_are_on_both_pods_for_a_while(w: VPodCluster) -> None:
    """Make before break: at no moment does a vpod have fewer than it wants on pods that work."""
    fill(w, overlapSeconds=2)
    number = hosted(w, "n1")
    before = w.history.now(w.namespace)
    w.kubectl("cordon n1")
    eventually(lambda: sum(w.held().values()) == PODS * VPODS + number, lambda: str(w.held()))
    moving = [name for name in w.vpods() if w.reason(name) == "Moving"]
    assert moving
    eventually(lambda: not hosted(w, "n1"), lambda: str(w.held()))
    w.rest()
    assert w.history.gained(w.namespace, "fleet", since=before) == number
    w.laws()


def test_zones_have_equal_shares(w: VPodCluster) -> None:
    fill(w, zones=True)
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in w.list("Node")}
    of_pod = {pod["metadata"]["name"]: zones[pod["spec"]["nodeName"]] for pod in w.list("Pod")}
    for counts in w.rest().values():
        shares = {zone: sum(n for pod, n in counts.items() if of_pod[pod] == zone) for zone in zones.values()}
        assert max(shares.values()) - min(shares.values()) <= 1, (counts, of_pod)
    w.laws()
