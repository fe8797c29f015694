"""`preemption-policy-obeyed` plays a gang's preemption out: it blames victims in vain, but no gang that starts then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from algorithm.conformance.harness import ContractBroken
from algorithm.conformance.replayed import ReplayedLife, life_of
from algorithm.conformance.worlds.hived import SETTINGS as CELLS
from algorithm.hived.formats.podspec import SPEC
from algorithm.interface import Bind, Phase, Preempt
from algorithm.model import Node, Pod, pairs
from algorithm.packing.gangs import GANG, GANG_MIN

CHECK = "preemption-policy-obeyed"
MISTAKE = "tests.conformance.mistakes.derived:PackingCountsOnVictimsOfAll"
PLANS = [Phase.PREEMPTING, Phase.EVICTING]


def small(name: str, **fields: Any) -> Pod:
    return Pod(namespace="ns", name=name, uid=f"u-{name}", requests=(("cpu", 1000),), **fields)


def full(plugin: str, free: str = "") -> ReplayedLife:
    """Two nodes for one pod each, on which pods of low priority run, but for `free`; and a gang, of which one must not
    preempt."""
    life = life_of(plugin, check=CHECK)
    for name in ("n1", "n2"):
        life.add_node(Node(name=name, uid=f"uid-{name}", allocatable=(("cpu", 1000), ("pods", 9))))
        if name != free:
            life.found_bound(small(f"low-{name}", node_name=name))
    gang = pairs({GANG: "g", GANG_MIN: "2"})
    life.submit(small("a", annotations=gang, priority=9), small("b", annotations=gang, priority=9, may_preempt=False))
    return life


def test_victims_that_go_in_vain_are_blamed() -> None:
    life = full(MISTAKE)
    why = (
        r"^ns/low-n1 went for ns/a and its gang, which still has no place: .* victims for ns/b, which may not preempt$"
    )
    with pytest.raises(ContractBroken, match=why):
        life.ask("u-a", ["n1", "n2"], Phase.PREEMPTING)


@pytest.mark.parametrize("plugin", [MISTAKE, "packing"])
def test_a_gang_whose_other_pod_has_free_room_is_not_blamed(plugin: str) -> None:
    life = full(plugin, free="n2")
    assert isinstance(life.ask("u-a", ["n1"], Phase.PREEMPTING), Preempt)


@pytest.mark.parametrize("phase", PLANS)
def test_a_gang_that_has_no_plan_is_not_blamed(phase: Phase) -> None:
    assert not isinstance(full("packing").ask("u-a", ["n1", "n2"], phase), Preempt)


@pytest.mark.parametrize("phase", PLANS)
def test_a_gang_that_preempts_as_a_whole_is_not_blamed(phase: Phase) -> None:
    """Of a gang of `hived`, the pod that is asked about evicts for all: their cells are kept."""

    def gang(name: str, priority: int) -> list[Pod]:
        members = [{"podNumber": 2, "leafCellNumber": 4}]
        group = {"name": name, "members": members}
        spec = {"virtualCluster": "a", "priority": priority, "leafCellNumber": 4, "affinityGroup": group}
        written = pairs({SPEC: json.dumps(spec)})
        names = [f"{name}-{number}" for number in range(2)]
        return [
            Pod(namespace="ns", name=each, uid=f"u-{each}", annotations=written, may_preempt=each.endswith("0"))
            for each in names
        ]

    life = life_of("hived", CELLS, check=CHECK)
    machines = ["m1", "m2", "m3", "m4"]
    for name in machines:
        life.add_node(Node(name=name, uid=f"uid-{name}"))
    life.submit(*(low := gang("low", 0)))
    for each in low:
        assert isinstance(life.ask(each.uid, machines), Bind)
        life.allocate(each.uid)
    life.submit(*gang("high", 5))
    answer = life.ask("u-high-0", machines, phase)
    assert isinstance(answer, Preempt)
    assert {victim.uid for victim in answer.victims} == {each.uid for each in low}
