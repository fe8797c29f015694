"""Two servers of vpods with a Lease on the real control plane: one of them is killed at the worst moment, or both.

Nothing moves but what has to.
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


@pytest.fixture(scope="module")
def crowd(shared: VPodCluster) -> Iterator[VPodCluster]:
    """200 vpods on eight pods, at rest. Each test begins with what the one before it has left."""
    try:
        shared.fleet(replicas=8, capacity=100, minReplicas=8)
        for number in range(VPODS):
            shared.vpod(f"v{number}", 2)
        yield shared
    finally:
        shared.clear()


@pytest.fixture
def w(crowd: VPodCluster) -> VPodCluster:
    crowd.serve_again()
    crowd.rest()
    return crowd


def test_a_leader_that_is_killed_in_the_middle_of_a_drain_is_followed(
    w: VPodCluster, record_property: pytest.RecordProperty
) -> None:
    """Half of the pods go, on which 200 vpods have vreplicas. Each of these moves once, and no other one."""
    there = sum(number for pod, number in w.held().items() if pod in ("fleet-4", "fleet-5", "fleet-6", "fleet-7"))
    first, since = w.leader(), w.history.now(w.namespace)
    w.kubectl("patch vpodset fleet --type=merge -p", '{"spec": {"minReplicas": 0}}')
    eventually(lambda: w.moves(since=since, now=False) >= there // 4, lambda: w.history.story(w.namespace, "fleet"))
    w.kill(first)
    at = w.moves(since=since)
    eventually(lambda: w.replicas() == 4, lambda: f"{w.replicas()} replicas, {w.held()}", seconds=40)
    w.rest()
    assert w.leader() != first
    assert at < there
    assert w.moves(since=since) == there
    assert w.held() == {f"fleet-{ordinal}": 100 for ordinal in range(4)}
    w.laws()
    record_property("measured", f"vpods: leader killed after {at} of {there} moves of a drain; {there} in the end")


def test_a_restart_of_everything_moves_nothing(w: VPodCluster) -> None:
    before, since = w.rest(), w.history.now(w.namespace)
    w.kill("a")
    w.stop("b")
    w.serve("a", "b")
    w.vpod("one-more", 3)
    w.placed("one-more")
    assert {name: found for name, found in w.rest().items() if name != "one-more"} == before
    assert _written(w, since) == {"one-more"}
    w.stop(w.leader())  # in order: the other one leads at once
    w.vpod("another", 3)
    w.placed("another")
    assert _written(w, since) == {"one-more", "another"}
    w.laws()


def _written(w: VPodCluster, since: int) -> set[str]:
    """The vpods of which there are new versions; the StatefulSet may grow for them."""
    w.history.now(w.namespace)
    return {each.name for each in w.history.versions(w.namespace, "fleet", since=since) if each.kind == "vpod"}
