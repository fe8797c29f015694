"""A taint NoExecute of a node drives vreplicas away from the pods that do not tolerate it, and from no others."""

from __future__ import annotations

import msgspec

from extender.vpods.events import HostNodeSeen
from extender.vpods.records import Toleration
from tests.unit.vpods.world import World

TAINT = ("dedicated", "kafka")


def taint(world: World, name: str, *taints: tuple[str, str]) -> None:
    world.nodes[name] = msgspec.structs.replace(world.nodes[name], taints=taints)
    world.watch.append(HostNodeSeen(world.nodes[name]))


def test_a_pod_that_does_not_tolerate_it_loses_its_vreplicas() -> None:
    world = World(scales=False, replicas=3, nodes=3)
    world.want("a", 6)
    world.settle()
    assert world.placed("a") == {"ss-0": 2, "ss-1": 2, "ss-2": 2}
    taint(world, "n0", TAINT)
    world.settle()
    assert world.placed("a") == {"ss-1": 3, "ss-2": 3}
    taint(world, "n0")
    world.settle()
    assert world.placed("a") == {"ss-0": 2, "ss-1": 2, "ss-2": 2}


def test_one_that_tolerates_it_hosts_as_before() -> None:
    world = World(scales=False, replicas=3, nodes=3)
    for name in world.nodes:
        taint(world, name, TAINT)
    for ordinal in range(3):
        world.change(ordinal, tolerates=(Toleration(*TAINT),))
    world.want("a", 6)
    world.settle()
    assert world.placed("a") == {"ss-0": 2, "ss-1": 2, "ss-2": 2}
