"""Cells: what is kept incrementally, binding, states, and lists whose order decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.hived.cells.celllist import CellList
from algorithm.hived.cells.cells import FREE, CellState, bind_upwards, derived_state, unbind_upwards
from algorithm.hived.cells.config import parse_config
from algorithm.hived.cells.layout import build
from algorithm.hived.formats.podspec import OPPORTUNISTIC
from tests.support.hived.audit import audit
from tests.support.hived.harness import RACKS, HivedHarness


@pytest.fixture
def layout():
    return build(parse_config(RACKS))


@pytest.fixture
def rack(layout):
    return layout.chains["rack"].full[4][0]


def leafs(cell):
    return [each for each in cell.walk() if each.level == 1]


def test_a_cell_has_the_highest_priority_of_what_runs_in_it(rack):
    first, second = leafs(rack)[:2]
    first.take(OPPORTUNISTIC)
    second.take(5)

    assert [rack.priority, first.parent.priority, leafs(rack)[2].priority] == [5, 5, FREE]

    second.give_back()

    assert rack.priority == OPPORTUNISTIC


def test_a_cell_counts_the_devices_of_each_priority(rack):
    for leaf, priority in zip(leafs(rack), (-1, -1, 0, 7), strict=False):
        leaf.take(priority)

    assert rack.used == {-1: 2, 0: 1, 7: 1}
    assert rack.used_total == 4


@pytest.mark.parametrize(("priority", "free"), [(-1, 4), (0, 6), (1, 7), (7, 7), (8, 8)])
def test_lower_priorities_count_as_free(rack, priority, free):
    for leaf, used in zip(leafs(rack), (-1, -1, 0, 7), strict=False):
        leaf.take(used)

    assert rack.free_for(priority) == free


def test_binding_a_device_binds_what_it_is_part_of(layout, rack):
    virtual = layout.tenants["a"].full["rack"][1][0]
    bind_upwards(leafs(rack)[0], virtual)

    assert virtual.root.physical is rack.children[0]
    assert rack.virtual is None


def test_unbinding_the_last_device_unbinds_what_it_is_part_of(layout, rack):
    first, second = layout.tenants["a"].full["rack"][1][:2]
    devices = leafs(rack)[:2]
    for device, virtual in zip(devices, (first, second), strict=True):
        bind_upwards(device, virtual)

    unbind_upwards(devices[0])
    assert second.root.physical is rack.children[0]

    unbind_upwards(devices[1])
    assert second.root.physical is None


def test_unbinding_stops_at_a_pinned_cell(layout, rack):
    host, virtual = rack.children[0], layout.tenants["a"].full["rack"][1][0]
    host.pinned = True
    bind_upwards(leafs(host)[0], virtual)

    unbind_upwards(leafs(host)[0])

    assert virtual.root.physical is host
    assert host.children[0].virtual is None


def test_a_virtual_cell_that_is_no_hardware_is_healthy_and_free(layout):
    virtual = layout.tenants["a"].full["rack"][3][0]

    assert (virtual.healthy, virtual.state) == (True, CellState.FREE)


@pytest.mark.parametrize(
    ("below", "state"),
    [
        ("Free Free", "Free"),
        ("Used Used", "Used"),
        ("Reserving Reserving", "Reserving"),
        ("Reserved Reserved", "Reserved"),
        ("Free Used", "Used"),
        ("Reserved Used", "Used"),
        ("Free Reserving", "Used"),
        ("Free Reserved", "Free"),
    ],
)
def test_the_state_of_a_cell_follows_from_those_below_bug_23(rack, below, state):
    cells = rack.children
    for cell, each in zip(cells, below.split(), strict=True):
        cell.state = CellState(each)

    assert derived_state(cells) is CellState(state)


def test_the_state_of_larger_cells_is_never_stale_bug_23(rack):
    first, second = leafs(rack)[:2]
    first.set_state(CellState.USED)
    second.set_state(CellState.RESERVED)
    second.set_state(CellState.FREE)
    first.set_state(CellState.FREE)

    assert {cell.state for cell in rack.walk()} == {CellState.FREE}


def test_a_new_cluster_agrees_with_itself():
    audit(HivedHarness().hive)


# -- lists ------------------------------------------------------------------------------------------------------------


class Naive(list):
    """The original's list: append at the end, the last one takes the place of a removed one."""

    def take_out(self, cell):
        self[self.index(cell)] = self[-1]
        self.pop()


@given(st.lists(st.tuples(st.sampled_from(["append", "remove", "prepend", "copy", "clear"]), st.integers(0, 30))))
def test_a_list_keeps_the_originals_order_and_always_knows_what_is_in_it(steps):
    pool = [cell for level in build(parse_config(RACKS)).chains["rack"].full.values() for cell in level]
    ours, naive = CellList(), Naive()
    for step, number in steps:
        cell = pool[number % len(pool)]
        if step == "append" and cell not in naive:
            ours.append(cell)
            naive.append(cell)
        elif step == "prepend" and cell not in naive:
            ours.prepend([cell])
            naive.insert(0, cell)
        elif step == "remove" and cell in naive:
            ours.remove(cell)
            naive.take_out(cell)
        elif step == "copy":
            ours, before = ours.copy(), ours
            before.clear()
        elif step == "clear" and number == 0:
            ours.clear()
            naive.clear()
        assert list(ours) == naive
        assert [each in ours for each in pool] == [each in naive for each in pool]


def test_what_is_not_in_a_list_cannot_be_removed(rack):
    with pytest.raises(KeyError):
        CellList([rack]).remove(rack.children[0])
