"""Promises are counted on the hardware that is left beside pinned cells, and refused by name where they do not fit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache

import pytest
import yaml

from algorithm.hived.cells import layout
from algorithm.hived.cells.cells import Cell, PhysicalCell
from algorithm.hived.cells.config import HivedConfigError, read_config
from algorithm.hived.cells.fit import Room
from algorithm.hived.cells.layout import build
from algorithm.hived.insight.diff import room

#: Two racks of two boxes of two devices; what stands in braces is said of single boxes.
TWO_RACKS = """
physicalCluster:
  cellTypes:
    box: {{childCellType: gpu, childCellNumber: 2, isNodeLevel: true}}
    rack: {{childCellType: box, childCellNumber: 2}}
  physicalCells:
  - {{cellType: rack, cellAddress: r0{0}, cellChildren: [{{cellAddress: m0{1}}}, {{cellAddress: m1{2}}}]}}
  - {{cellType: rack, cellAddress: r1, cellChildren: [{{cellAddress: m2{3}}}, {{cellAddress: m3{4}}}]}}
virtualClusters: {5}
"""
_P, _Q = ", pinnedCellId: p", ", pinnedCellId: q"


def said(*parts: str) -> str:
    try:
        build(read_config(yaml.safe_load(TWO_RACKS.format(*parts))))
    except HivedConfigError as error:
        return str(error)
    return ""


def test_no_rack_is_whole_if_one_box_of_each_is_pinned():
    tenants = "{a: {virtualCells: [{cellType: rack, cellNumber: 1}], pinnedCells: [{pinnedCellId: p}]}, "
    tenants += "b: {pinnedCells: [{pinnedCellId: q}]}}"

    assert said("", _P, "", _Q, "", tenants) == (
        "virtualClusters: promised 1 cells rack of rack (a 1), but there are 0 whole ones beside what is pinned: "
        "p for a (r0/m0), q for b (r1/m2)"
    )


def test_pinned_boxes_of_one_rack_leave_the_other_whole():
    tenants = "{a: {virtualCells: [{cellType: rack, cellNumber: 1}], pinnedCells: [{pinnedCellId: p}]}, "
    tenants += "b: {pinnedCells: [{pinnedCellId: q}]}}"

    assert said("", _P, _Q, "", "", tenants) == ""


def test_boxes_beside_pinned_ones_may_be_promised():
    tenants = "{a: {virtualCells: [{cellType: rack.box, cellNumber: 2}], pinnedCells: [{pinnedCellId: p}]}, "
    tenants += "b: {pinnedCells: [{pinnedCellId: q}]}}"

    assert said("", _P, "", _Q, "", tenants) == ""


def test_a_cell_that_is_pinned_for_nobody_is_in_nobodys_way():
    assert said("", _P, "", _Q, "", "{a: {virtualCells: [{cellType: rack, cellNumber: 2}]}}") == ""


def test_a_part_of_a_pinned_cell_cannot_be_pinned_for_anybody():
    tenants = "{a: {pinnedCells: [{pinnedCellId: p}]}, b: {pinnedCells: [{pinnedCellId: q}]}}"

    assert said(_P, _Q, "", "", "", tenants) == (
        "virtualClusters.b.pinnedCells: q is a part of p, which is pinned for a"
    )


def test_a_pinned_part_of_a_cell_whose_id_nobody_uses_is_no_matter():
    assert said(_P, _Q, "", "", "", "{b: {pinnedCells: [{pinnedCellId: q}]}}") == ""


def test_of_many_pinned_cells_the_first_are_named():
    hosts = [{"cellAddress": f"m{number}", "pinnedCellId": f"p{number}"} for number in range(8)]
    types = {
        "box": {"childCellType": "gpu", "childCellNumber": 1, "isNodeLevel": True},
        "rack": {"childCellType": "box", "childCellNumber": 8},
    }
    pins = [{"pinnedCellId": f"p{number}"} for number in range(8)]
    tenant = {"virtualCells": [{"cellType": "rack.box", "cellNumber": 1}], "pinnedCells": pins}
    rack = {"cellType": "rack", "cellAddress": "r", "cellChildren": hosts}
    physical = {"cellTypes": types, "physicalCells": [rack]}

    with pytest.raises(HivedConfigError, match=r"p4 for a \(r/m4\) and 3 more$"):
        build(read_config({"physicalCluster": physical, "virtualClusters": {"a": tenant}}))


def test_what_is_left_over_is_what_is_left_beside_pinned_cells():
    tenants = "{a: {pinnedCells: [{pinnedCellId: p}]}, b: {pinnedCells: [{pinnedCellId: q}]}}"
    built = build(read_config(yaml.safe_load(TWO_RACKS.format("", _P, "", _Q, "", tenants))))

    assert list(room(built)) == [
        Room("rack", "rack", 0, 0),
        Room("rack", "box", 2, 2),
        Room("rack", "gpu", 0, 4),
    ]


# -- against an oracle that tries everything --------------------------------------------------------------------------


def drawn(luck: random.Random) -> dict[str, object]:
    """One or two chains of small trees, tenants with promises and pinned cells; about every other one cannot be."""
    types: dict[str, object] = {}
    tops: list[dict[str, object]] = []
    paths: list[str] = []
    pins: list[str] = []
    for chain in range(luck.choice([1, 1, 2])):
        fanouts = luck.choice([[1], [2], [3], [4], [1, 3], [2, 2], [3, 2], [2, 3], [2, 1, 2], [2, 2, 2]])
        names = [f"c{chain}l{level}" for level in range(len(fanouts), -1, -1)]
        machine = luck.randrange(len(fanouts))
        for level, fanout in enumerate(fanouts):
            kind = {"childCellType": names[level + 1], "childCellNumber": fanout, "isNodeLevel": level == machine}
            types[names[level]] = kind
        paths += [".".join(names[: level + 1]) for level in range(len(names))]
        tops += [_tree(luck, names[0], fanouts, pins) for _ in range(luck.randint(1, 2 if len(fanouts) == 3 else 3))]
    for number, top in enumerate(tops):
        top["cellAddress"] = f"m{number}"
    tenants: dict[str, dict[str, list[dict[str, object]]]] = {
        name: {"virtualCells": [], "pinnedCells": []} for name in ("a", "b", "c")
    }
    for pinned_id in pins:
        if luck.random() < 0.8:
            tenants[luck.choice("abc")]["pinnedCells"].append({"pinnedCellId": pinned_id})
    for _ in range(luck.randint(0, 4)):
        promise = {"cellType": luck.choice(paths), "cellNumber": luck.choice([1, 1, 2])}
        tenants[luck.choice("abc")]["virtualCells"].append(promise)
    return {"physicalCluster": {"cellTypes": types, "physicalCells": tops}, "virtualClusters": tenants}


def _tree(luck: random.Random, name: str, fanouts: list[int], pins: list[str]) -> dict[str, object]:
    cell: dict[str, object] = {"cellType": name}
    if luck.random() < 0.15:
        pins.append(f"p{len(pins)}")
        cell["pinnedCellId"] = pins[-1]
    if fanouts:
        below = [_tree(luck, "", fanouts[1:], pins) for _ in range(fanouts[0])]
        cell["cellChildren"] = [{key: each[key] for key in each if key != "cellType"} for each in below]
    return cell


def can_be_kept(config: dict[str, object]) -> bool:
    """Gives each promise every piece of hardware in turn, until all have one. No device may be in two of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout.fit, "check", lambda *_: None)
        built = build(read_config(config))
    leafs = [leaf for chain in built.chains.values() for leaf in chain.full[1]]
    bit = {leaf: 1 << number for number, leaf in enumerate(leafs)}
    taken = 0
    for pinned_id in (pinned_id for tenant in built.tenants.values() for pinned_id in tenant.pinned):
        mine = _devices(built.pinned[pinned_id], bit)
        if mine & taken:
            return False
        taken |= mine
    wanted = [
        [_devices(cell, bit) for cell in built.chains[chain].full[level]]
        for tenant in built.tenants.values()
        for chain, levels in tenant.preassigned.items()
        for level, cells in levels.items()
        for _ in cells
    ]

    @cache
    def handed_out(number: int, taken: int) -> bool:
        if number == len(wanted):
            return True
        return any(handed_out(number + 1, taken | mine) for mine in wanted[number] if not mine & taken)

    return handed_out(0, taken)


def _devices(cell: Cell, bit: dict[PhysicalCell, int]) -> int:
    return sum(bit[leaf] for leaf in cell.walk() if isinstance(leaf, PhysicalCell) and leaf.level == 1)


def is_accepted(config: dict[str, object]) -> bool:
    try:
        build(read_config(config))
    except HivedConfigError:
        return False
    return True


def numbers() -> Iterable[object]:
    yield pytest.param(range(300), id="quick")
    yield pytest.param(range(300, 6_000), id="more", marks=pytest.mark.slow)


@pytest.mark.parametrize("seeds", list(numbers()))
def test_what_a_cluster_can_keep_is_accepted_and_nothing_else(seeds: range):
    outcomes = []
    for seed in seeds:
        config = drawn(random.Random(seed))
        outcomes.append(can_be_kept(config))
        assert is_accepted(config) == outcomes[-1], yaml.safe_dump(config)

    assert 0.2 < sum(outcomes) / len(outcomes) < 0.8
