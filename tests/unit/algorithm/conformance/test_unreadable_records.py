"""A record that raises while it is read changes nothing in an algorithm of ours, and counts when it comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from algorithm.conformance.calls import AddNode, FoundBound, Submit, Update, UpdateNode
from algorithm.conformance.observation import numbers, observe
from algorithm.conformance.replayed import ReplayedLife
from algorithm.conformance.unreadable_records import ANY, InjectedFault, unreadable
from algorithm.fgd import FgdAlgorithm
from algorithm.hived import HivedAlgorithm
from algorithm.interface import SchedulerAlgorithm
from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm
from tests.support.hived.harness import RACKS, one, settings_of

GANG = (("waggle.dev/gang", "g"), ("waggle.dev/gang-min", "2"), ("waggle.dev/gpu-milli", "300"))
ROOM = (("cpu", 8000), ("memory", 64), ("nvidia.com/gpu", 2), ("pods", 8))


def pod(name: str, node: str = "", cpu: int = 1000) -> Pod:
    requests = (("cpu", cpu),)
    return Pod(namespace="ns", name=name, uid=f"u-{name}", requests=requests, annotations=GANG, node_name=node)


def life_of(create: Callable[[], SchedulerAlgorithm]) -> ReplayedLife:
    life = ReplayedLife(create)
    life.add_node(Node(name="a", allocatable=ROOM))
    life.submit(pod("waits"))
    life.found_bound(pod("runs", "a"))
    return life


CHANGES: dict[str, Callable[[], Any]] = {
    "a new node": lambda: AddNode(Node(name="b", allocatable=ROOM)),
    "a node that changes": lambda: UpdateNode(Node(name="a", allocatable=(("cpu", 1),))),
    "a new pod": lambda: Submit((pod("new"),)),
    "a pod that is found bound": lambda: FoundBound(pod("found", "a")),
    "a pod on a node that is not known": lambda: FoundBound(pod("lost", "nowhere")),
    "a running pod that changes": lambda: Update(pod("runs", "a", cpu=2000)),
}


@pytest.mark.parametrize("create", [PackingAlgorithm, FgdAlgorithm])
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("field", ["allocatable", "labels", "requests", "annotations", ANY])
def test_it_changes_nothing(create: Callable[[], SchedulerAlgorithm], change: Callable[[], Any], field: str) -> None:
    for after in (1, 2, 3, 4):
        check(create, change, field, after)


def check(create: Callable[[], SchedulerAlgorithm], change: Callable[[], Any], field: str, after: int) -> None:
    made = change()
    record = getattr(made, "node", None) or getattr(made, "pod", None) or made.pods[0]
    if field != ANY and not hasattr(record, field):
        return
    life, twin = life_of(create), life_of(create)
    before = observe(life)
    kept = dict(life.nodes), dict(life.waiting), dict(life.allocated)
    try:
        with unreadable(made, field, after) as bad:
            life.carry_out(bad)
    except InjectedFault:
        life.cluster.nodes, life.cluster.waiting, life.cluster.allocated = kept
        assert observe(life) == before
        life.carry_out(made)
    twin.carry_out(made)
    assert observe(life) == observe(twin)
    assert numbers(life.algorithm) == numbers(twin.algorithm)


@pytest.mark.parametrize("after", [1, 2])
def test_hived_knows_no_bound_pod_that_it_could_not_read_at_a_start(after: int) -> None:
    told, twin = (HivedAlgorithm(settings_of(RACKS)) for _ in range(2))
    bound = one("g").placed("m1", ())
    with unreadable(FoundBound(bound), ANY, after) as bad, pytest.raises(InjectedFault):
        told.add_allocated_pod(bad.pod)
    for each in (told, twin):
        each.add_unallocated_pod(one("waits"))
    assert told.inspect() == twin.inspect()
    assert told.unrecoverable_pods == {}
