"""Exact copies, for what-if: the same cells, accounts and groups, and the same order between equals.

Cells point to each other in all directions, so a copy that follows pointers (copy.deepcopy) would recurse as deep as
there are cells. And a hive has a hundred thousand objects: a copy in pieces lets events come in between.

    take      under the lock, in pieces: what the objects consist of at the moment of the last piece
    link      afterwards, without the lock: the copies of all objects, with references to each other

What an object consists of is taken early, if it is one of many or large, and again if it changes afterwards:

* cells and groups, lists of cells and of machines: they are *watched* until their first change (`tables.watched_kind`);
* tables: their copies follow them (`tables.Table`).

All others are small, and the last piece takes them. What never changes once it is made (`FIXED`) is copied while
objects are linked; the objects of those types must not change, nor what only they refer to.

The journal cannot replace a copy: it takes back, and a copy lives on beside its original. It is empty between events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import chain, islice, repeat
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from algorithm.hived.cells.celllist import CHANGES, CellList
from algorithm.hived.cells.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.cells.chain_allocator import Order
from algorithm.hived.cells.chains import Chain, Layout, Tenant
from algorithm.hived.cells.journal import Journal
from algorithm.hived.cells.nodelist import NodeList
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group
from algorithm.tables import Followers, Table, watched_kind

T = TypeVar("T")

#: How many cells and groups one piece copies.
CELLS, GROUPS = 500, 100
#: So many changed ones may be left for the last piece.
_LAST = 50

#: Types of immutable objects. The frozen sets have numbers only.
_ATOMS: tuple[type[Any], ...] = (str, bytes, int, float, bool, type(None), frozenset)
#: Types of objects that never change, although what they refer to may.
FIXED: tuple[type[Any], ...] = (Layout, Chain, Tenant, Order)
_NO_TYPES: Mapping[type[Any], Any] = MappingProxyType({})
#: Objects of these modules are copied attribute by attribute.
_OURS = "algorithm.hived."


#: The groups that an object refers to.
GroupsOf = Callable[[Any], Iterable[Group]]


class Fork(Generic[T]):
    """One copy in the making, of an object that refers to `hive`.

    The copy shares nothing with the original but texts, numbers, and instances of `shared`, which never change. Objects
    of this package are copied attribute by attribute; each once, however many point to it. `fixed` has types like those
    in `FIXED`, of values of tables, with a function that returns the groups that such a value refers to: they change.

    `is_watched` is False if nothing happens between the pieces.
    """

    def __init__(
        self,
        thing: T,
        hive: HivedCluster | None = None,
        *,
        shared: Iterable[type[Any]],
        fixed: Mapping[type[Any], GroupsOf] = _NO_TYPES,
        is_watched: bool = True,
    ) -> None:
        self._thing, self._hive, self._is_watched = thing, hive, is_watched
        self._shared = frozenset((*_ATOMS, *shared))
        self._groups_of = fixed
        self._fixed = frozenset((*FIXED, *fixed))
        self._slots_of: dict[type[Any], tuple[str, ...]] = {}
        #: The copies of cells and groups.
        self._cells: dict[Cell, Cell] = {}
        self._groups: dict[Group, Group] = {}
        #: What was taken of lists, by list, and of other objects and containers, with them, by `id`.
        self._lists: dict[CellList[Any] | NodeList, Any] = {}
        self._taken: dict[int, tuple[Any, Any]] = {}
        self._followers = Followers()
        #: What has changed since it was copied or taken. Sets have no order, and it matters to nothing.
        self._changed: set[Any] = set()
        self._kinds: dict[type[Any], type[Any]] = {
            PhysicalCell: watched_kind(PhysicalCell, self._changed),
            VirtualCell: watched_kind(VirtualCell, self._changed),
            Group: watched_kind(Group, self._changed, methods=("touch",)),
            CellList: watched_kind(CellList, self._changed, methods=CHANGES),
            NodeList: watched_kind(NodeList, self._changed, methods=("touch",)),
        }
        self._plain = {kind: plain for plain, kind in self._kinds.items()}
        #: Types of objects that a walk does not have to look at, one by one.
        self._passed = self._shared | {PhysicalCell, VirtualCell, self._kinds[PhysicalCell], self._kinds[VirtualCell]}
        #: New values of tables that may refer to groups.
        self._set_values: list[Any] = []
        self._journal = Journal()
        #: Copies by `id`, and those that are still empty, with their originals and whether those are fixed.
        self._twins: dict[int, Any] = {}
        self._empty: list[tuple[Any, Any, bool]] = []

    # -- taking, under the lock -----------------------------------------------------------------------------------

    def pieces(self) -> Iterator[None]:
        """Copy and take all that changes, a piece at each step. What was taken is of the moment when it ends."""
        tables = yield from self._take_early()
        if self._hive is not None:
            yield from self._copy_cells(self._hive)
            for some in _chunks(list(self._hive.groups.values()), GROUPS):
                self._copy_groups(some)
                yield
        for some in _chunks([value for table in tables for value in self._referring(table)], GROUPS):
            for each in some:
                self._copy_new_groups(each)
            yield
        while len(self._changed) > _LAST or len(self._set_values) > _LAST:
            self._renew(GROUPS)
            yield
        self._renew_all()
        self._take(self._walk())
        self._renew_all()
        self._followers.unfollow()

    def leave(self) -> Iterator[None]:
        """Watch nothing any more. To be called also if the pieces were abandoned."""
        self._followers.unfollow()
        if self._is_watched:
            for things in (self._cells, self._groups, self._lists):
                for some in _chunks(things, 10 * CELLS):
                    for each in some:
                        kind = self._plain.get(type(each))
                        if kind is not None:
                            each.__class__ = kind
                    yield
            self._is_watched = False

    def _take_early(self) -> Generator[None, None, list[Table[Any, Any]]]:
        """Follow tables and take lists, as far as there are any now. Returns the tables."""
        found = [each for each in self._walk() if isinstance(each, (Table, CellList, NodeList))]
        yield
        tables = []
        for each in found:
            if not isinstance(each, Table):
                self._take_list(each)
            else:
                tables.append(each)
                if self._is_watched:
                    self._followers.follow(each, self._on_set)
            yield
        return tables

    def _on_set(self, value: Any) -> None:
        """A table has a new value."""
        if isinstance(value, Group):
            self._changed.add(value)
        elif type(value) in self._groups_of:
            self._set_values.append(value)

    def _referring(self, table: Table[Any, Any]) -> list[Any]:
        """The values of the table, if they may refer to groups: all are of one type."""
        return list(table.values()) if type(next(iter(table.values()), None)) in self._groups_of else []

    def _copy_new_groups(self, value: Any) -> None:
        self._copy_groups(group for group in self._groups_of[type(value)](value) if group not in self._groups)

    def _copy_cells(self, hive: HivedCluster) -> Iterator[None]:
        cells = self._cells
        for kind, alike in _all_cells(hive.layout):
            for some in _chunks(alike, 4 * CELLS):
                cells.update(zip(some, map(object.__new__, repeat(kind, len(some))), strict=True))
                yield
        for some in _chunks(cells, CELLS):
            self._copy_some_cells(some)
            yield

    def _copy_some_cells(self, some: Iterable[Any]) -> None:
        """Copy these cells, and watch them. Written for speed: this is a third of the work."""
        cells, journal, is_watched, kinds = self._cells, self._journal, self._is_watched, self._kinds
        groups: Mapping[Any, Group] = self._groups
        for cell in some:
            twin: Any = cells[cell]
            cell.copy_to(twin, cells, journal)
            if cell.listed is not None:
                twin.listed = self._empty_list(cell.listed)
            if isinstance(cell, PhysicalCell):
                if cell.group is not None:
                    twin.group = groups.get(cell.group) or self._empty_group(cell.group)
                if cell.reserver is not None:
                    twin.reserver = groups.get(cell.reserver) or self._empty_group(cell.reserver)
            if is_watched:
                cell.__class__ = kinds.get(type(cell), type(cell))

    def _watch(self, thing: Any) -> None:
        if self._is_watched:
            thing.__class__ = self._kinds.get(type(thing), type(thing))

    def _empty_group(self, group: Any) -> Group:
        """The copy of a group, which may still be empty."""
        twin = self._groups.get(group)
        if twin is None:
            twin = self._groups[group] = Group.__new__(Group)
            self._changed.add(group)
        return twin

    def _copy_groups(self, groups: Iterable[Group]) -> None:
        for group in groups:
            twin = self._groups.get(group)
            if twin is None:
                twin = Group.__new__(Group)
            try:
                group.copy_to(twin, self._cells)
            except KeyError:
                # It has cells of a hive that was replaced, and so never changes.
                continue
            self._groups[group] = twin
            self._watch(group)
            self._changed.discard(group)

    def _take_list(self, cells: CellList[Any] | NodeList) -> None:
        self._lists[cells] = cells.taken()
        self._watch(cells)

    def _renew(self, most: int) -> None:
        """Copy what is new, and copy again what has changed."""
        changed = self._changed
        while self._set_values and most > 0:
            self._copy_new_groups(self._set_values.pop())
            most -= 1
        while changed and most > 0:
            each = changed.pop()
            if isinstance(each, Cell):
                self._copy_some_cells((each,))
            elif isinstance(each, Group):
                self._copy_groups((each,))
            else:
                self._take_list(each)
            most -= 1

    def _renew_all(self) -> None:
        while self._changed or self._set_values:
            self._renew(GROUPS)

    # -- all that changes -----------------------------------------------------------------------------------------

    def _walk(self) -> Iterator[Any]:
        """All objects and containers that may change, but for cells and groups."""
        met: set[int] = set()
        rest: list[Any] = [self._thing]
        while rest:
            thing = rest.pop()
            if id(thing) in met:
                continue
            met.add(id(thing))
            kind = type(thing)
            if kind in self._shared or kind in self._fixed or isinstance(thing, (str, Cell, Journal)):
                continue
            if isinstance(thing, Group):
                if thing not in self._groups:
                    self._copy_groups((thing,))
                continue
            if kind is not tuple:
                yield thing
            if not isinstance(thing, (Table, CellList, NodeList)):
                rest += self._inside(thing)

    def _inside(self, thing: Any) -> Iterable[Any]:
        if isinstance(thing, dict):
            return [*self._some(thing), *self._some(thing.values())]
        if isinstance(thing, (list, tuple, set)):
            return self._some(thing)
        return [value for _, value in self._attributes(thing)]

    def _some(self, things: Iterable[Any]) -> Iterable[Any]:
        """Those that may change, or refer to something that does."""
        return () if self._passed.issuperset(map(type, things)) else things

    def _take(self, things: Iterable[Any]) -> None:
        for thing in things:
            if isinstance(thing, (CellList, NodeList)):
                if thing not in self._lists:
                    self._take_list(thing)
            else:
                self._taken[id(thing)] = thing, self._content(thing)

    def _content(self, thing: Any) -> Any:
        if isinstance(thing, Table):
            return self._followers.taken(thing)
        if isinstance(thing, dict):
            return dict.copy(thing)
        if isinstance(thing, (list, set)):
            return thing.copy()
        if not type(thing).__module__.startswith(_OURS):
            raise TypeError(f"a {type(thing).__name__} cannot be copied")
        return dict(self._attributes(thing))

    def _attributes(self, thing: Any) -> Iterator[tuple[str, Any]]:
        kind = type(thing)
        if kind not in self._slots_of:
            self._slots_of[kind] = tuple(name for each in kind.__mro__ for name in each.__dict__.get("__slots__", ()))
        for name in self._slots_of[kind]:
            yield name, getattr(thing, name)
        yield from getattr(thing, "__dict__", {}).items()

    # -- linking, without the lock --------------------------------------------------------------------------------

    def result(self) -> T:
        """Return the copy, once all pieces are made. To be called once."""
        twin: T = self._twin(self._thing, is_fixed=False)
        for cells, taken in self._lists.items():
            made = self._empty_list(cells)
            if isinstance(made, NodeList):
                made.refill(taken, self._cells)
            else:
                in_order, journal = taken
                made.refill(map(self._cells.__getitem__, in_order), None if journal is None else self._journal)
        while self._empty:
            self._fill(*self._empty.pop())
        return twin

    def _empty_list(self, cells: Any) -> Any:
        """The copy of a list of cells or machines, which may still be empty."""
        twin = self._twins.get(id(cells))
        if twin is None:
            kind = NodeList if isinstance(cells, NodeList) else CellList
            twin = self._twins[id(cells)] = kind.__new__(kind)
        return twin

    def _twin(self, thing: Any, *, is_fixed: bool) -> Any:
        """The copy, which may still be empty. What only fixed objects refer to is fixed, and was not taken."""
        if type(thing) in self._shared:
            return thing
        if isinstance(thing, Cell) and thing in self._cells:
            return self._cells[thing]
        if isinstance(thing, Group) and thing in self._groups:
            return self._groups[thing]
        if isinstance(thing, Journal) and self._hive is not None and thing is self._hive.journal:
            return self._journal
        twin = self._twins.get(id(thing))
        if twin is None:
            twin = self._twins[id(thing)] = self._made(thing, is_fixed=is_fixed or type(thing) in self._fixed)
        return twin

    def _made(self, thing: Any, *, is_fixed: bool) -> Any:
        kind: Any = type(thing)
        if isinstance(thing, str):  # an enumeration
            return thing
        if kind is tuple:
            return tuple(self._all(thing, is_fixed=is_fixed))
        if issubclass(kind, tuple):
            return kind(*self._all(thing, is_fixed=is_fixed))
        assert is_fixed or id(thing) in self._taken, f"a {kind.__name__} was not taken"
        if not isinstance(thing, (list, dict, set)) and not kind.__module__.startswith(_OURS):
            return deepcopy(thing)
        twin = Table() if isinstance(thing, Table) else kind.__new__(kind)
        self._empty.append((thing, twin, is_fixed and id(thing) not in self._taken))
        return twin

    def _all(self, things: Iterable[Any], *, is_fixed: bool) -> Iterable[Any]:
        """Their copies, in the same order. They can be iterated several times."""
        kinds = set(map(type, things))
        if kinds <= self._shared:
            return things
        for kind, copies in ((Cell, self._cells), (Group, self._groups)):
            if copies and all(issubclass(each, kind) for each in kinds):
                with suppress(KeyError):  # a proposal may be older than the hive, and have cells of the one before
                    return list(map(copies.__getitem__, things))
        if kinds == {tuple} and self._shared.issuperset(map(type, chain.from_iterable(things))):
            return things
        if is_fixed and kinds == {list}:
            return list(map(self._fixed_list, things))
        return [self._twin(each, is_fixed=is_fixed) for each in things]

    def _fixed_list(self, things: list[Any]) -> Any:
        """The copy of a list that nothing changes; there are many of machines' devices."""
        twin = self._twins.get(id(things))
        if twin is None and id(things) not in self._taken:
            with suppress(KeyError, TypeError):
                twin = self._twins[id(things)] = list(map(self._cells.__getitem__, things))
        return self._twin(things, is_fixed=True) if twin is None else twin

    def _fill(self, thing: Any, twin: Any, is_fixed: bool) -> None:
        content = thing if is_fixed else self._taken[id(thing)][1]
        if isinstance(thing, list):
            twin.extend(self._all(content, is_fixed=is_fixed))
        elif isinstance(thing, set):
            twin.update(self._all(content, is_fixed=is_fixed))
        elif isinstance(thing, dict):
            keys, values = (self._all(each, is_fixed=is_fixed) for each in (content, content.values()))
            copied = content if keys is content and not isinstance(values, list) else zip(keys, values, strict=True)
            if isinstance(thing, OrderedDict):
                twin.update(copied)
            else:
                dict.update(twin, copied)  # a Counter would count
        else:
            for name, value in self._attributes(thing) if is_fixed else content.items():
                # Some of our records are frozen.
                object.__setattr__(twin, name, self._twin(value, is_fixed=is_fixed))


def _chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(things)
    while some := list(islice(rest, size)):
        yield some


def _all_cells(layout: Layout) -> Iterator[tuple[type[Cell], Iterable[Cell]]]:
    """All cells, and of what kind they are."""
    for each in layout.chains.values():
        for hardware in each.full.values():
            yield PhysicalCell, hardware
    for tenant in layout.tenants.values():
        for levels in (*tenant.full.values(), *tenant.pinned.values()):
            for quota in levels.values():
                yield VirtualCell, quota
