"""The best node for each kind of need, kept up to date: only nodes that changed since the last question are looked at.

Nodes stand in a row, in the order of their names, which decides between equal scores. For each need that was asked
about there is a list with a number for each node: its score above its place in the row, -1 where the pod does not fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from algorithm.fgd.devices import Devices, found_free
from algorithm.fgd.fragmentation import Fragmentation
from algorithm.fgd.needs import Need
from algorithm.fgd.policies import Score
from algorithm.reasons import Code, Reason, reason

#: Needs of which the numbers are kept, the last that were asked about; and changes that are remembered for them.
MOST_NEEDS, _MOST_CHANGES = 512, 20_000
_PLACES = 1 << 24


class Found(NamedTuple):
    """A node, and which of its GPUs."""

    node: Devices
    gpus: tuple[int, ...]


class _Numbers:
    """Of one need: for each node a number, and why the pod has no room there; up to which change they hold."""

    __slots__ = ("gpus", "numbers", "reasons", "refused_upto", "upto")

    def __init__(self, nodes: int) -> None:
        self.numbers = [-1] * nodes
        self.gpus: list[tuple[int, ...]] = [()] * nodes
        self.upto = -1
        #: None: there is room.
        self.reasons: list[Reason | None] = [None] * nodes
        self.refused_upto = -1


class Ranking:
    """All nodes with their numbers. `nodes` is the owner's own mapping, by name."""

    def __init__(self, nodes: Mapping[str, Devices], score: Score) -> None:
        self._nodes = nodes
        self._score = score
        self._row: list[Devices] | None = None
        self._places: dict[str, int] = {}
        self._names: frozenset[str] = frozenset()
        self._known: OrderedDict[Need, _Numbers] = OrderedDict()
        #: Places that changed, in this order; the first of them was change number `_first`.
        self._changes: list[int] = []
        self._first = 0
        #: The fragmentation of each node, and up to which change it holds.
        self._fragmented: list[float] = []
        self._fragmented_upto = -1

    def node_changed(self, name: str) -> None:
        """What is left of this node has changed."""
        place = self._places.get(name)
        if place is None or self._row is None:
            return
        self._changes.append(place)
        if len(self._changes) > _MOST_CHANGES:
            half = len(self._changes) // 2
            del self._changes[:half]
            self._first += half

    def forget(self) -> None:
        """There are other nodes, or another measure of fragmentation."""
        self._row = None
        self._places.clear()
        self._known.clear()
        self._changes.clear()
        self._first = 0
        self._fragmented, self._fragmented_upto = [], -1

    def row(self) -> list[Devices]:
        """All nodes that exist, by name. Not to be changed."""
        if self._row is None:
            self._row = [each for _, each in sorted(self._nodes.items()) if each.node is not None]
            self._places = {each.name: place for place, each in enumerate(self._row)}
            self._names = frozenset(self._places)
        return self._row

    def names(self) -> frozenset[str]:
        """The names of all nodes that exist; the same object until there are others."""
        self.row()
        return self._names

    def refusals(self, need: Need, fragmentation: Fragmentation) -> dict[str, Reason]:
        """Why the pod has no room, by the name of each node where it has none."""
        current, row = self._current(need, fragmentation), self.row()
        for place in self._changed_since(current.refused_upto):
            current.reasons[place] = None if current.numbers[place] >= 0 else refusal(need, row[place])
        current.refused_upto = self._now
        return {each.name: why for each, why in zip(row, current.reasons, strict=True) if why is not None}

    def numbers(self, need: Need, fragmentation: Fragmentation) -> list[int]:
        """The numbers of all nodes for this need, in the order of `row`. Not to be changed."""
        return self._current(need, fragmentation).numbers

    def best(self, need: Need, fragmentation: Fragmentation, offered: frozenset[str] | None) -> Found | None:
        """The node with the highest score. `offered` None: all nodes are."""
        current, row = self._current(need, fragmentation), self.row()
        if offered is None:
            top = max(current.numbers, default=-1)
        else:
            places = (self._places.get(name) for name in offered)
            top = max((current.numbers[place] for place in places if place is not None), default=-1)
        if top < 0:
            return None
        place = place_of(top)
        return Found(row[place], current.gpus[place])

    def gpus(self, need: Need, fragmentation: Fragmentation, place: int) -> tuple[int, ...]:
        """The GPUs that a pod with this need gets on the node at this place of the row."""
        return self._current(need, fragmentation).gpus[place]

    def _current(self, need: Need, fragmentation: Fragmentation) -> _Numbers:
        row = self.row()
        found = self._known.get(need)
        if found is None:
            found = self._known[need] = _Numbers(len(row))
            if len(self._known) > MOST_NEEDS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(need)
        models = need.models
        for place in self._changed_since(found.upto):
            node = row[place]
            if fits(need, models, node):
                score, found.gpus[place] = self._score(need, node, fragmentation)
                found.numbers[place] = number(score, place)
            else:
                found.numbers[place] = -1
        found.upto = self._now
        return found

    @property
    def _now(self) -> int:
        return self._first + len(self._changes)

    def _changed_since(self, upto: int) -> Iterable[int]:
        """The places in the row that have changed since."""
        if upto < self._first:
            return range(len(self.row()))
        return set(self._changes[upto - self._first :]) if upto < self._now else ()

    def fragmented(self, fragmentation: Fragmentation) -> float:
        """The fragmentation of all nodes, in thousandths of a GPU."""
        row = self.row()
        if len(self._fragmented) != len(row):
            self._fragmented, self._fragmented_upto = [0.0] * len(row), -1
        for place in self._changed_since(self._fragmented_upto):
            node = row[place]
            self._fragmented[place] = fragmentation.of(node.model, node.cpu, node.free)
        self._fragmented_upto = self._now
        return sum(self._fragmented)


def number(score: float, place: int) -> int:
    """The score above the place, so that the highest number is the best node."""
    # Scores may be negative on nodes larger than the policies expect.
    return (int(score) + 1_000_000) * _PLACES + _PLACES - 1 - place


def place_of(best: int) -> int:
    return _PLACES - 1 - best % _PLACES


def fits(need: Need, models: frozenset[str], node: Devices) -> bool:
    """Whether the pod has room on the node as it is."""
    known = node.node
    if node.cpu < need.cpu or node.memory < need.memory or node.pods < 1:
        return False
    if known is None or known.unschedulable or not known.ready:
        return False
    if not need.gpus:
        return True
    return (not models or node.model in models) and found_free(need, node.free) is not None


def refusal(need: Need, node: Devices) -> Reason:
    """Why the pod has no room on the node."""
    known = node.node
    if known is None:
        return _said(Code.NODE_UNKNOWN)
    if not known.ready:
        return _said(Code.NODE_NOT_READY)
    if known.unschedulable:
        return _said(Code.NODE_CORDONED)
    if need.gpus and need.models and node.model not in need.models:
        return _said(Code.NODE_LACKS_RESOURCE, f"GPUs of model {' or '.join(sorted(need.models))}")
    if need.gpus > len(node.free):
        return _said(Code.NODE_LACKS_RESOURCE, "GPUs")
    if node.pods < 1:
        return _said(Code.TOO_MANY_PODS)
    short = ["cpu"] if node.cpu < need.cpu else []
    if need.gpus and found_free(need, node.free) is None:
        short.append("a part of a GPU" if need.is_shared else "whole GPUs")
    if node.memory < need.memory:
        short.append("memory")
    return _said(Code.INSUFFICIENT, *short)


@lru_cache(maxsize=1024)
def _said(code: Code, *resources: str) -> Reason:
    return reason(code, resources=resources) if resources else reason(code)
