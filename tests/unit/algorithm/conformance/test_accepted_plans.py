"""What the kit does not blame of accepted plans: that a pod insists on one, and that other room is for anybody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from algorithm.conformance.replayed import ReplayedLife, life_of
from algorithm.conformance.worlds.hived import SETTINGS as CELLS
from algorithm.hived.formats.podspec import SPEC
from algorithm.interface import Bind, Phase, Preempt
from algorithm.model import Node, Pod, pairs
from algorithm.packing.gangs import GANG, GANG_MIN

PREEMPTING = Phase.PREEMPTING


def of_group(name: str, group: str, priority: int, *, leafs: int, pods: int = 2, ignores: bool = False) -> Pod:
    """One of the pods of an affinity group."""
    spec = {
        "virtualCluster": "a",
        "priority": priority,
        "leafCellNumber": leafs,
        "affinityGroup": {"name": group, "members": [{"podNumber": pods, "leafCellNumber": leafs}]},
        "ignoreK8sSuggestedNodes": ignores,
    }
    return Pod(namespace="ns", name=name, uid=f"u-{name}", annotations=pairs({SPEC: json.dumps(spec)}))


def preempts_on_m2(*, ignores: bool) -> ReplayedLife:
    """The plan of `high-0` is accepted: it is for m2, the only node that there was."""
    life = life_of("hived", CELLS, check="only-offered-nodes")
    life.add_node(Node(name="m2", uid="uid-m2"))
    life.submit(low := of_group("low-0", "low", 0, leafs=2), of_group("low-1", "low", 0, leafs=2))
    life.ask(low.uid, ["m2"])
    life.allocate(low.uid)
    life.submit(*(of_group(f"high-{at}", "high", 1, leafs=2, ignores=ignores) for at in range(2)))
    answer = life.ask("u-high-0", ["m2"], PREEMPTING)
    assert isinstance(answer, Preempt)
    assert answer.node == "m2"
    life.start_preempting("u-high-0")
    return life


@pytest.mark.parametrize("uid", ["u-high-0", "u-high-1"])
def test_a_gang_that_preempts_may_insist_on_its_plan_whatever_is_offered(uid: str) -> None:
    life = preempts_on_m2(ignores=False)
    answer = life.ask(uid, ["m1"])
    assert isinstance(answer, Preempt)
    assert answer.node == "m2"
    life.end()


def test_it_may_do_so_while_the_node_is_away() -> None:
    life = preempts_on_m2(ignores=True)
    life.delete_node("m2")
    assert isinstance(life.ask("u-high-1", ["m1"]), Preempt)
    life.end()


def test_room_of_preemptors_of_other_gangs_is_not_kept_for_a_pod() -> None:
    """`high` counts on a pod that is being deleted anyway, and names no victim. That pod stays for so long that a plan
    for `lesser` clears another node meanwhile: any pod that is more important may go there."""
    life = life_of("packing", check="preemptors-room-kept")
    for name in ("n1", "n2"):
        life.add_node(Node(name=name, uid=f"uid-{name}", allocatable=(("cpu", 1000), ("pods", 9))))
        life.found_bound(small(f"low-{name}", node_name=name, terminating=name == "n1"))
    life.submit(small("lesser", priority=5), small("high", priority=9, annotations=pairs({GANG: "g", GANG_MIN: "1"})))
    for uid, node, victims in (("u-lesser", "n1", 1), ("u-high", "n1", 0), ("u-lesser", "n2", 1)):
        answer = life.ask(uid, [node], PREEMPTING)
        assert isinstance(answer, Preempt)
        assert (answer.node, len(answer.victims)) == (node, victims)
        life.start_preempting(uid)
    life.end()


def test_a_plan_may_be_over_when_a_pod_of_a_higher_priority_has_got_its_room() -> None:
    """`hived` cancels it. When that pod has gone, too, the room is for anybody."""
    life = life_of("hived", CELLS, check="preemptors-room-kept")
    life.add_node(Node(name="m3", uid="uid-m3"))
    low, middle, high = (
        of_group(name, name, at, leafs=4, pods=1) for at, name in enumerate(("low", "middle", "high"), -1)
    )
    life.submit(low)
    assert isinstance(life.ask(low.uid, ["m3"]), Bind)
    life.allocate(low.uid)
    life.submit(middle)
    assert isinstance(life.ask(middle.uid, ["m3"], Phase.EVICTING), Preempt)
    life.start_preempting(middle.uid)
    life.expire(low.uid)
    life.submit(high)
    assert isinstance(life.ask(high.uid, ["m3"]), Bind)
    life.allocate(high.uid)
    life.delete(high.uid)
    life.end()


def small(name: str, **fields: Any) -> Pod:
    return Pod(namespace="ns", name=name, uid=f"u-{name}", requests=(("cpu", 1000),), **fields)
