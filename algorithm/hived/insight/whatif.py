"""What-if: really ends groups, lets the caller look, and restores everything.

Nothing is simulated. The hive does what it does when a group ends, with all consequences (cells merge, doomed cells are
released, victims get their devices back). Before that, everything that can change is saved: the trees of cells that the
groups are in, those with bad hardware (doomed cells may change there), and the accounts. Afterwards not even an order
between equals differs, so a what-if has no effect on later decisions.

The cost depends on the touched trees, not on the size of the cluster; a fork of a large hive would take seconds. The
saved state is reused as long as nothing else changes the hive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from algorithm.hived.cells.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState, reserver_of, user_of

#: What may change about cells and groups when a group ends; `used` and `preempting` are copied as well. Versions only
#: grow: what was shown meanwhile is never taken for what is shown later.
PHYSICAL = ("priority", "used_total", "virtual", "group", "reserver", "split", "state", "tenant")
VIRTUAL = ("priority", "used_total", "physical")
GROUP = ("state", "virtual", "lazily_preempted_by", "lazily_preempted_at")

_State = tuple[Any, ...]
_of_physical, _of_virtual, _of_group = attrgetter(*PHYSICAL), attrgetter(*VIRTUAL), attrgetter(*GROUP)


class WhatIf:
    """For one hive. `moment` differs whenever something else may have changed it, which is never while it is open."""

    def __init__(self, hive: HivedCluster, moment: Callable[[], int] = lambda: 0) -> None:
        self._hive = hive
        self._moment, self._known_at = moment, moment()
        #: Cells as they are, by tree; and the version that each tree has as long as nobody changes it.
        self._trees: dict[Cell, list[tuple[Cell, _State, dict[int, int]]]] = {}
        self._versions: dict[Cell, int] = {}
        self._groups: dict[Group, tuple[_State, dict[str, None]]] = {}

    @contextmanager
    def ended(self, groups: Iterable[Group] = ()) -> Iterator[None]:
        """Within it these groups have ended. What is asked within leaves no trace either."""
        with self.open():
            for group in groups:
                self.end(group)
            yield

    @contextmanager
    def open(self) -> Iterator[None]:
        """A block in which groups may be ended: all of them are restored at its end."""
        hive = self._hive
        if self._moment() != self._known_at:
            self._forget()
        books = [(each, each.remembered()) for each in hive.books.values()]
        by_name = (hive.nodes, hive.pinned_nodes, hive.open_nodes)
        lists = [(each, each.remembered()) for named in by_name for each in named.values()]
        groups, usage = dict(hive.groups), hive.usage.copy()
        lazily, orders = hive.lazily.copy(), hive.orders.copy()
        try:
            yield
        finally:
            self._put_back()
            hive.usage, hive.lazily, hive.orders = usage, lazily, orders
            hive.groups.clear()
            hive.groups.update(groups)
            for each, kept in books:
                each.put_back(kept)
            for listed, order in lists:
                listed.put_back(order)

    def end(self, group: Group) -> None:
        """Its pods are gone, those that wait as well. Nothing happens to a group that is not there."""
        hive = self._hive
        if hive.groups.get(group.name) is not group:
            return
        self._remember(group)
        if group.state is GroupState.PREEMPTING:
            hive.cancel(group)
        else:
            hive.end(group)

    def _forget(self) -> None:
        self._known_at = self._moment()
        for known in (self._trees, self._versions, self._groups):
            known.clear()

    # -- remembering ------------------------------------------------------------------------------------------

    def _remember(self, ending: Group) -> None:
        """Save the trees of the group, those of groups that share its devices, and those with bad hardware."""
        if not self._trees:
            for chain in self._hive.layout.chains.values():
                self._remember_trees(top for top in chain.full[chain.top] if not top.healthy)
        met = {ending: None}
        for device, _ in ending.leafs():
            met |= {group: None for group in (user_of(device), reserver_of(device)) if group is not None}
        for group in met.keys() - self._groups.keys():
            self._groups[group] = _of_group(group), dict(group.preempting)
            for device, virtual in group.leafs():
                self._remember_trees([device.top] if virtual is None else [device.top, virtual.top])

    def _remember_trees(self, tops: Iterable[Cell]) -> None:
        """All their cells, and all cells of the trees that these are bound to."""
        following = list(tops)
        while following:
            top = following.pop()
            if top in self._trees:
                continue
            self._versions[top] = top.version
            cells = self._trees[top] = []
            for cell in top.walk():
                cells.append((cell, _state_of(cell), cell.used.copy()))
                bound = _bound_to(cell)
                if bound is not None and bound.top not in self._trees:
                    following.append(bound.top)

    # -- putting back -----------------------------------------------------------------------------------------

    def _put_back(self) -> None:
        changed = [top for top, version in self._versions.items() if top.version != version]
        for top in changed:
            self._unbind_new(top)
        for top in changed:
            for cell, state, used in self._trees[top]:
                _set(cell, PHYSICAL if isinstance(cell, PhysicalCell) else VIRTUAL, state)
                cell.used = used.copy()
            top.version += 1
            self._versions[top] = top.version
        for group, (state, preempting) in self._groups.items():
            _set(group, GROUP, state)
            group.preempting = preempting.copy()

    def _unbind_new(self, top: Cell) -> None:
        """Quota that was no hardware before may have become some meanwhile: it was doomed."""
        for cell, *_ in self._trees[top]:
            virtual = cell.virtual if isinstance(cell, PhysicalCell) else None
            if virtual is not None and virtual.top not in self._trees:
                virtual.physical = None
                virtual.top.version += 1


def _state_of(cell: Cell) -> _State:
    state: _State = _of_physical(cell) if isinstance(cell, PhysicalCell) else _of_virtual(cell)
    return state


def _bound_to(cell: Cell) -> Cell | None:
    if isinstance(cell, PhysicalCell):
        return cell.virtual
    assert isinstance(cell, VirtualCell)
    return cell.physical


def _set(thing: object, names: Iterable[str], values: _State) -> None:
    for name, value in zip(names, values, strict=True):
        setattr(thing, name, value)
