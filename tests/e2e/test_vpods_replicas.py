"""Two servers of vpods with a Lease on the real control plane: one of them is killed at the worst moment, or both.

Nothing moves but what has to. Others write the StatefulSet's replicas, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.hands import eventually
from tests.e2e.vpods import VPodCluster, vpod_cluster

VPODS = 200


@pytest.fixture(scope="module")
def shared(
    plane: ControlPlane, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VPodCluster]:
    with vpod_cluster(plane, programs, tmp_path_factory.mktemp("vpods")) as w:
        yield w


@pytest.fixture
def w(shared: VPodCluster) -> Iterator[VPodCluster]:
    try:
        yield shared
        shared.serve(*(name for name, server in shared.servers.items() if not server.alive))
    finally:
        shared.clear()


def test_a_leader_that_is_killed_in_the_middle_of_a_drain_is_followed(
    w: VPodCluster, record_property: pytest.RecordProperty
) -> None:
    """Half of the pods go, on which 200 vpods have vreplicas. Each of these moves once, and no other one."""
    w.fleet(replicas=8, capacity=100, minReplicas=8)
    for number in range(VPODS):
        w.vpod(f"v{number}", 2)
    w.rest()
    there = sum(number for pod, number in w.held().items() if pod in ("fleet-4", "fleet-5", "fleet-6", "fleet-7"))
    w.kubectl("patch vpodset fleet --type=merge -p", '{"spec": {"minReplicas": 0}}')
    first = w.leader()
    eventually(lambda: w.moves() >= there // 4, lambda: w.history.story(w.namespace, "fleet"))
    w.servers[first].kill()
    at = w.moves()
    eventually(lambda: w.replicas() == 4, lambda: f"{w.replicas()} replicas, {w.held()}", seconds=40)
    w.rest()
    assert w.leader() != first
    assert at < there
    assert w.moves() == there
    assert w.held() == {f"fleet-{ordinal}": 100 for ordinal in range(4)}
    w.laws()
    record_property("measured", f"vpods: leader killed after {at} of {there} moves of a drain; {w.moves()} in the end")


def test_a_restart_of_everything_moves_nothing(w: VPodCluster) -> None:
    w.fleet(replicas=5, capacity=200)
    for number in range(VPODS):
        w.vpod(f"v{number}", number % 7)
    before = w.rest()
    since = w.history.now(w.namespace)
    w.servers["a"].kill()
    w.servers["b"].stop()
    w.serve("a", "b")
    w.vpod("one-more", 3)
    w.placed("one-more")
    assert {name: found for name, found in w.rest().items() if name != "one-more"} == before
    versions = w.history.versions(w.namespace, "fleet", since=since)
    assert {each.name for each in versions} == {"one-more"}
    w.servers[w.leader()].stop()  # in order: the other one leads at once
    w.vpod("another", 3)
    w.placed("another")
    versions = w.history.versions(w.namespace, "fleet", since=since)
    assert {each.name for each in versions} == {"one-more", "another"}
    w.laws()


def test_replicas_that_somebody_else_sets_are_noticed_and_corrected(w: VPodCluster) -> None:
    """More than are needed are drained and taken away; where fewer were left than are needed, they come again."""
    w.fleet(replicas=3, capacity=10)
    for number in range(10):
        w.vpod(f"v{number}", 3)
    before = w.rest()
    noticed = sum(w.counted("waggle_vpods_foreign_scales_total").values())
    w.kubectl("scale statefulset fleet --replicas=6")
    eventually(lambda: w.replicas() == 3, lambda: f"{w.replicas()} replicas")
    assert w.rest() == before
    w.laws()
    w.kubectl("scale statefulset fleet --replicas=1")
    eventually(lambda: w.replicas() == 3, lambda: f"{w.replicas()} replicas")
    w.rest()
    assert w.held() == {"fleet-0": 10, "fleet-1": 10, "fleet-2": 10}
    w.laws("stranded", "lost")
    assert sum(w.counted("waggle_vpods_foreign_scales_total").values()) == noticed + 2
    eventually(lambda: len(w.events("fleet", "ForeignScale")), lambda: str(w.list("Event")))
