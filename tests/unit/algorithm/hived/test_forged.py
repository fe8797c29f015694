"""What the author of a pod writes on it where only the scheduler has something to say: it counts for nothing."""

from __future__ import annotations

import json

import pytest

from algorithm.hived.lazily import LAZILY
from algorithm.hived.promotion import ORDER
from tests.support.hived_world import RACKS, World, gang, one, pod, racks

PROMOTING = "promoteLazilyPreempted: true\n"


def forger(tenant: str, *, priority: int = 0) -> object:
    """Claims that the gang of another tenant lost its quota, and to have been bound last of all."""
    wish = {"virtualCluster": tenant, "priority": priority, "leafCellNumber": 1}
    said = [{"group": "gang", "by": "ns/forger", "pods": ["u-gang-0", "u-gang-1"]}]
    return pod("forger", json.dumps(wish), **{LAZILY: json.dumps(said), ORDER: "9" * 15})


@pytest.mark.parametrize("priority", [0, -1])
@pytest.mark.parametrize("switches", ["", PROMOTING])
def test_nobody_loses_quota_because_another_tenants_pod_says_so(switches, priority):
    world = World(RACKS + switches)
    world.bind(*gang("gang", tenant="a", pods=2, leafs=4, lazyPreemptionEnable=True))
    world.bind(forger("b", priority=priority))
    assert world.group("gang").virtual is not None
    world.restart()
    assert world.group("gang").virtual is not None


def test_nobody_makes_the_numbers_of_later_pods_unreadable():
    world = World(racks(a="rack.host.socket.gpu 4", b="rack.host.socket.gpu 8") + PROMOTING)
    world.bind(one("lender", lazyPreemptionEnable=True), *gang("other", pods=3, priority=5))
    world.bind(*[one(f"b{number}", tenant="b") for number in range(7)], forger("b"))
    world.delete(*[world.allocated[f"u-b{number}-0"] for number in (0, 2, 4, 6)])
    boss = one("boss", priority=9)
    world.bind(boss)
    assert world.group("lender").virtual is None
    assert world.allocated[boss.uid].annotation(ORDER) == "1"


def test_a_pod_that_claims_nothing_has_nothing_emptied():
    world = World()
    [each] = gang("plain", tenant="a")
    world.bind(each)
    assert world.allocated[each.uid].annotation(LAZILY) is None
    assert world.allocated[each.uid].annotation(ORDER) is None
