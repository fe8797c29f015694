"""Exact copies, for what-if: the same cells, accounts and groups, and the same order between equals.

Cells point to each other in all directions, so a copy that follows pointers (copy.deepcopy) would recurse as deep as
the cluster is large. Here objects are first created empty, then filled one after the other. Cells, of which there are
most, come first and copy themselves.

The journal cannot replace a copy: it takes back, and a copy lives on beside its original.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, TypeVar

from algorithm.hived.cells.cells import Cell, PhysicalCell
from algorithm.hived.cells.chains import Layout
from algorithm.hived.cells.journal import Journal
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group

T = TypeVar("T")

#: Types of immutable objects. The frozen sets have numbers only.
_ATOMS: tuple[type[Any], ...] = (str, bytes, int, float, bool, type(None), frozenset)
#: Objects of these modules are copied attribute by attribute.
_OURS = "algorithm.hived."


def independent_copy(thing: T, *, shared: Iterable[type[Any]], hive: HivedCluster | None = None) -> T:
    """A copy that shares nothing with the original but texts, numbers, and instances of `shared`, which never change.

    Objects of this package are copied attribute by attribute; each once, however many point to it. The cells and
    groups of `hive`, of which there are most, copy themselves.
    """
    copier = _Copier(frozenset((*_ATOMS, *shared)))
    if hive is not None:
        copier.copy_cells(hive)
    return copier.copy(thing)


class _Copier:
    """`shared` has the exact types of objects that are not copied."""

    def __init__(self, shared: frozenset[type[Any]]) -> None:
        self._shared = shared
        self._slots_of: dict[type[Any], tuple[str, ...]] = {}
        self._cells: dict[Cell, Cell] = {}
        self._twins: dict[int, Any] = {}
        self._empty: list[tuple[Any, Any]] = []

    def copy_cells(self, hive: HivedCluster) -> None:
        """Copy all cells and groups of the hive."""
        journal = self._twins[id(hive.journal)] = Journal()
        cells = self._cells
        for cell in _all_cells(hive.layout):
            cells[cell] = cell.__new__(type(cell))
        for cell, twin in cells.items():
            cell.copy_to(twin, cells, journal)
            if cell.listed is not None:
                twin.listed = self._twin(cell.listed)
        for group in hive.groups.values():
            copied = self._twins[id(group)] = Group.__new__(Group)
            group.copy_to(copied, cells)
        for chain in hive.layout.chains.values():
            for device in chain.full[1]:
                if device.group is not None or device.reserver is not None:
                    same = cells[device]
                    assert isinstance(same, PhysicalCell)
                    same.group, same.reserver = self._twin(device.group), self._twin(device.reserver)

    def copy(self, thing: T) -> T:
        twin: T = self._twin(thing)
        while self._empty:
            self._fill(*self._empty.pop())
        return twin

    def _twin(self, thing: Any) -> Any:
        """The copy, which may still be empty."""
        if type(thing) in self._shared:
            return thing
        twin = self._twins.get(id(thing))
        if twin is None:
            twin = self._twins[id(thing)] = self._made(thing)
        return twin

    def _made(self, thing: Any) -> Any:
        kind: Any = type(thing)
        if kind is tuple:
            return thing if self._shared.issuperset(map(type, thing)) else tuple(self._all(thing))
        if isinstance(thing, Cell) and thing in self._cells:
            return self._cells[thing]
        if isinstance(thing, str):  # an enumeration
            return thing
        if not isinstance(thing, (list, dict)) and not kind.__module__.startswith(_OURS):
            return deepcopy(thing)
        twin = kind.__new__(kind)
        self._empty.append((thing, twin))
        return twin

    def _all(self, things: Iterable[Any]) -> Iterable[Any]:
        """Their copies, in the same order. They can be iterated several times."""
        kinds = set(map(type, things))
        if kinds <= self._shared:
            return things
        if self._cells and all(issubclass(kind, Cell) for kind in kinds):
            copies = list(map(self._cells.get, things))
            if None not in copies:  # a proposal may be older than the hive, and have cells of the one before
                return copies
        return map(self._twin, things)

    def _fill(self, thing: Any, twin: Any) -> None:
        if isinstance(thing, list):
            twin.extend(self._all(thing))
        elif isinstance(thing, dict):
            copied = zip(self._all(thing), self._all(thing.values()), strict=True)
            twin.update(dict(copied) if isinstance(thing, Counter) else copied)
        else:
            for name in (*self._slots(type(thing)), *getattr(thing, "__dict__", ())):
                # Some of our records are frozen.
                object.__setattr__(twin, name, self._twin(getattr(thing, name)))

    def _slots(self, kind: type[Any]) -> tuple[str, ...]:
        if kind not in self._slots_of:
            self._slots_of[kind] = tuple(name for each in kind.__mro__ for name in each.__dict__.get("__slots__", ()))
        return self._slots_of[kind]


def _all_cells(layout: Layout) -> Iterator[Cell]:
    for chain in layout.chains.values():
        for hardware in chain.full.values():
            yield from hardware
    for tenant in layout.tenants.values():
        for levels in (*tenant.full.values(), *tenant.pinned.values()):
            for quota in levels.values():
                yield from quota
