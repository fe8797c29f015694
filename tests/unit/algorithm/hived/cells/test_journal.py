"""The journal against a naive deep copy: random changes, marks and roll-backs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from algorithm.hived.cells.celllist import CellList
from algorithm.hived.cells.cells import PhysicalCell, VirtualCell, bind_upwards, unbind_upwards
from algorithm.hived.cells.chains import Layout
from algorithm.hived.cells.config import parse_config
from algorithm.hived.cells.journal import Journal
from algorithm.hived.cells.layout import build
from algorithm.hived.cells.nodelist import NodeList
from algorithm.hived.cells.request import Offered
from tests.support.hived.harness import RACKS


class Thing:
    """Something with attributes, a list, and mappings whose order counts."""

    def __init__(self) -> None:
        self.color = 0
        self.row = [0, 0, 0]
        self.table: dict[int, int] = {}


NUMBERS, KEYS = st.integers(0, 9), st.integers(0, 3)
LEAFS = st.integers(0, 7)
EVERYTHING = Offered((), ignored=True)


class Changes(RuleBasedStateMachine):
    """Within one block: after each roll-back, everything is as the deep copy of the mark has it."""

    @initialize()
    def begin(self) -> None:
        layout = build(parse_config(RACKS))
        self.journal = layout.journal
        self.thing = Thing()
        self.hardware = layout.chains["rack"].full[1]
        self.quota = layout.tenants["a"].full["rack"][1]
        self.list: CellList[PhysicalCell] = CellList(self.hardware[:3], journal=self.journal)
        self.layout = layout
        self.block = self.journal.recorded()
        self.block.__enter__()
        self.marks: list[tuple[int, Any]] = []
        self.first = self.now()

    def now(self) -> Any:
        """A deep copy, in plain data."""
        return deepcopy((vars(self.thing), list(self.thing.table), [each.address for each in self.list])), [
            _state(cell) for cell in _cells(self.layout)
        ]

    @rule(value=NUMBERS)
    def set_attribute(self, value: int) -> None:
        self.journal.attribute(self.thing, "color")
        self.thing.color = value

    @rule(index=st.integers(0, 2), value=NUMBERS)
    def replace_element(self, index: int, value: int) -> None:
        self.journal.element(self.thing.row, index)
        self.thing.row[index] = value

    @rule(key=KEYS, value=NUMBERS)
    def set_entry(self, key: int, value: int) -> None:
        self.journal.entry(self.thing.table, key)
        self.thing.table[key] = value

    @precondition(lambda self: self.thing.table)
    @rule(key=KEYS)
    def delete_entry(self, key: int) -> None:
        self.journal.whole(self.thing.table)
        self.thing.table.pop(key, None)

    @rule(number=LEAFS)
    def list_or_unlist(self, number: int) -> None:
        cell = self.hardware[number]
        if cell in self.list:
            self.list.remove(cell)
        else:
            self.list.append(cell)

    @rule(number=LEAFS, priority=st.integers(-1, 2))
    def take_or_give_back(self, number: int, priority: int) -> None:
        for cell in (self.hardware[number], self.quota[number]):
            if cell.used:
                cell.give_back()
            else:
                cell.take(priority)

    @rule(number=LEAFS, state=st.sampled_from(["Free", "Used", "Reserving", "Reserved"]))
    def set_state(self, number: int, state: str) -> None:
        cell = self.hardware[number]
        cell.set_state(type(cell.state)(state))

    @rule(number=LEAFS)
    def bind_or_unbind(self, number: int) -> None:
        physical = self.hardware[number]
        if physical.virtual is not None:
            unbind_upwards(physical)
        elif self.quota[number].physical is None and _fits(physical, self.quota[number]):
            bind_upwards(physical, self.quota[number])

    @rule(number=LEAFS, tenant=st.sampled_from(["", "a"]), split=st.booleans())
    def set_the_rest(self, number: int, tenant: str, split: bool) -> None:
        self.hardware[number].set_tenant(tenant)
        self.hardware[number].set_split(split=split)

    @rule()
    def mark(self) -> None:
        self.marks.append((self.journal.mark(), self.now()))

    @precondition(lambda self: self.marks)
    @rule(number=st.integers(0, 5))
    def roll_back(self, number: int) -> None:
        number %= len(self.marks)
        mark, then = self.marks[number]
        self.journal.roll_back(mark)
        assert self.now() == then
        del self.marks[number + 1 :]

    @rule()
    def an_inner_block(self) -> None:
        before = self.now()
        with pytest.raises(ZeroDivisionError):
            self.fail_in_a_block()
        with self.journal.trial():
            self.take_or_give_back(1, 1)
            self.set_entry(3, 3)
        assert self.now() == before

    def fail_in_a_block(self) -> None:
        with self.journal.recorded():
            self.set_attribute(7)
            self.list_or_unlist(2)
            self.delete_entry(3)
            raise ZeroDivisionError

    @invariant()
    def is_recording(self) -> None:
        assert self.journal.recording

    def teardown(self) -> None:
        if hasattr(self, "block"):
            self.journal.roll_back(0)
            assert self.now() == self.first
            self.block.__exit__(None, None, None)
            assert not self.journal.recording


Changes.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestChanges = Changes.TestCase


def _cells(layout: Layout) -> list[PhysicalCell | VirtualCell]:
    tenants = layout.tenants.values()
    virtual = [cell for each in tenants for full in each.full.values() for cells in full.values() for cell in cells]
    return [*(cell for cells in layout.chains["rack"].full.values() for cell in cells), *virtual]


def _state(cell: PhysicalCell | VirtualCell) -> tuple[object, ...]:
    both = (cell.used.copy(), cell.used_total, cell.priority, cell.state)
    if isinstance(cell, PhysicalCell):
        return (*both, cell.virtual and cell.virtual.address, cell.tenant, cell.split)
    return (*both, cell.physical and cell.physical.address)


def _fits(physical: PhysicalCell | None, virtual: VirtualCell | None) -> bool:
    """Whether what is above them is bound to each other, or not at all."""
    while physical is not None and virtual is not None:
        if physical.virtual is not None or virtual.physical is not None:
            return physical.virtual is virtual
        physical, virtual = physical.parent, virtual.parent
    return virtual is None


def test_outside_of_blocks_nothing_is_recorded() -> None:
    journal, thing = Journal(), Thing()
    journal.attribute(thing, "color")
    thing.color = 1
    journal.roll_back(journal.mark())

    assert thing.color == 1


def test_what_is_recorded_stays_unless_it_is_rolled_back() -> None:
    journal, thing = Journal(), Thing()
    with journal.recorded():
        journal.attribute(thing, "color")
        thing.color = 1

    assert thing.color == 1


def test_an_entry_may_come_and_go_after_its_mapping_was_saved() -> None:
    journal, table = Journal(), {1: 1, 2: 2}
    with journal.trial():
        for key in (1, 3):
            journal.entry(table, key)
            table[key] = 0
            journal.whole(table)
            del table[key]

    assert list(table.items()) == [(1, 1), (2, 2)]


def test_a_list_of_machines_hears_of_what_was_taken_back() -> None:
    """It was sorted while the machine was full."""
    layout = build(parse_config(RACKS))
    machines = layout.chains["rack"].full[3]
    nodes = NodeList(machines, packs_across_priorities=True)
    before = [cell for cell, *_ in nodes.candidates(0, 1)]
    with layout.journal.trial():
        for device in layout.machines["m1"]:
            device.take(0)
        nodes.arrange(EVERYTHING)
        assert [cell for cell, *_ in nodes.candidates(0, 1)] == before[1:]
    nodes.arrange(EVERYTHING)

    assert {cell for cell, *_ in nodes.candidates(0, 1)} == set(before)
