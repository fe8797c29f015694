"""What the author of a pod writes on it where only the scheduler has something to say.

What the scheduler writes anyway is written over. Whoever makes pods that are bound already (`spec.nodeName`) is trusted
with free devices, but not with the algorithm's life, nor with places of other tenants' gangs.
"""

from __future__ import annotations

import json

import msgspec
import pytest

from algorithm.hived.formats.bindinfo import BIND_INFO
from algorithm.hived.formats.podspec import SPEC
from algorithm.hived.state import lazy_preemption as lazily
from algorithm.hived.state.lazy_preemption import LAZILY_PREEMPTED, ORDER
from algorithm.model import Pod, pairs
from tests.support.hived.harness import RACKS, HivedHarness, gang, one, pod, racks

PROMOTING = "promoteLazilyPreempted: true\n"


def forger(tenant: str, *, priority: int = 0) -> Pod:
    """Claims that the gang of another tenant lost its quota, and to have been bound last of all."""
    wish = {"virtualCluster": tenant, "priority": priority, "leafCellNumber": 1}
    said = [{"group": "gang", "by": "ns/forger", "pods": ["u-gang-0", "u-gang-1"]}]
    return pod("forger", json.dumps(wish), **{LAZILY_PREEMPTED: json.dumps(said), ORDER: "9" * 15})


@pytest.mark.parametrize("priority", [0, -1])
@pytest.mark.parametrize("switches", ["", PROMOTING])
def test_nobody_loses_quota_because_another_tenants_pod_says_so(switches, priority):
    world = HivedHarness(RACKS + switches)
    world.bind(*gang("gang", tenant="a", pods=2, leafs=4, lazyPreemptionEnable=True))
    world.bind(forger("b", priority=priority))
    assert world.group("gang").virtual is not None
    world.restart()
    assert world.group("gang").virtual is not None


@pytest.mark.parametrize(("length", "believed"), [(1, 0), (8, 0), (36, 500)])
def test_hundreds_of_pods_are_believed_if_their_names_are_as_long_as_uids(length: int, believed: int) -> None:
    pods = tuple(str(number).zfill(length)[-length:] for number in range(500))
    [(_, text)] = lazily.write([lazily.QuotaLoss("gang", "other", pods)])
    assert sum(len(each.pods) for each in lazily.read(text)) == believed


def test_nobody_makes_the_numbers_of_later_pods_unreadable():
    world = HivedHarness(racks(a="rack.host.socket.gpu 4", b="rack.host.socket.gpu 8") + PROMOTING)
    world.bind(one("lender", lazyPreemptionEnable=True), *gang("other", pods=3, priority=5))
    world.bind(*[one(f"b{number}", tenant="b") for number in range(7)], forger("b"))
    world.delete(*[world.allocated[f"u-b{number}-0"] for number in (0, 2, 4, 6)])
    boss = one("boss", priority=9)
    world.bind(boss)
    assert world.group("lender").virtual is None
    assert world.allocated[boss.uid].annotation(ORDER) == "1"


def test_a_pod_that_claims_nothing_has_nothing_emptied():
    world = HivedHarness()
    [each] = gang("plain", tenant="a")
    world.bind(each)
    assert world.allocated[each.uid].annotation(LAZILY_PREEMPTED) is None
    assert world.allocated[each.uid].annotation(ORDER) is None


def bound(name: str, node: str, indices: list[int], type_: str, *, wish: dict[str, object], **annotations: str) -> Pod:
    """Somebody made it as if it had been placed."""
    place = {"physicalNode": node, "physicalLeafCellIndices": indices, "preassignedCellTypes": [type_] * len(indices)}
    info = {
        "node": node,
        "leafCellIsolation": indices,
        "cellChain": "rack",
        "affinityGroupBindInfo": [{"podPlacements": [place]}],
    }
    wish = {"virtualCluster": "a", "leafCellNumber": len(indices), **wish}
    return pod(name, json.dumps(wish), **annotations).placed(node, ((BIND_INFO, json.dumps(info)),))


@pytest.mark.parametrize("switches", ["", PROMOTING])
def test_who_says_the_same_twice_comes_and_goes(switches):
    world = HivedHarness(RACKS + switches)
    said = [{"group": "gang", "by": "x", "pods": ["u-gang-0", "u-gang-0"]}] * 2
    world.found(
        bound("twice", "m1", [0], "host", wish={"priority": 0}, **{LAZILY_PREEMPTED: json.dumps(said), ORDER: "1"})
    )
    world.delete(world.allocated["u-twice"])
    assert not world.hive.groups


@pytest.mark.parametrize("type_", ["host", "rack"])
def test_an_opportunistic_pod_has_no_quota_whatever_it_says(type_):
    world = HivedHarness(racks(a="rack.host 1, rack 1"))
    world.found(bound("low", "m1", [0, 2], type_, wish={"priority": -1}))
    assert world.group("ns/low").virtual is None
    world.bind(*gang("all", pods=2, leafs=4))
    world.delete(world.allocated["u-low"])
    assert set(world.hive.groups) == {"all"}


def test_a_place_in_another_tenants_gang_is_not_to_be_had():
    world = HivedHarness()
    first, second = gang("gang", tenant="a", pods=2, leafs=4)
    world.bind(first)
    other = world.ask(second)
    wish = {
        "virtualCluster": "b",
        "affinityGroup": {"name": "gang", "members": [{"podNumber": 2, "leafCellNumber": 4}]},
    }
    thief = pod("thief", json.dumps({"leafCellNumber": 4, **wish})).placed(other.node, other.annotations)
    world.found(thief)
    assert list(world.algorithm.inspect()["strangers"]) == ["ns/thief"]
    world.take(second, world.ask(second))


@pytest.mark.parametrize("said", ["", "no specification", "{}", None])
def test_what_its_author_writes_on_a_running_pod_does_not_keep_its_cells(said: str | None) -> None:
    world = HivedHarness(racks(a="rack.host 1"))
    first = one("first", leafs=4)
    world.bind(first)
    running = world.allocated[first.uid]
    others = tuple(pair for pair in running.annotations if pair[0] != SPEC)
    edited = msgspec.structs.replace(
        running, annotations=others if said is None else pairs(dict(others) | {SPEC: said})
    )
    world.algorithm.update_allocated_pod(running, edited)
    world.allocated[first.uid] = edited
    world.delete(edited)
    assert "first" not in world.hive.groups
    world.bind(one("second", leafs=4))
