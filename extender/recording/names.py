"""Long lists of node names, written once: kube-scheduler offers the same thousands with every pod.

    {"new": ["a", "b"], "runs": [0, 2]}     names that were not written before get the next numbers; then the list as
    {"runs": [1, 1, 0, 1]}                  runs of numbers, first and length: here b, a
    {"at": "BQADAAkA"}                      or number by number, if there is no order in it: two bytes each, or four
    {"same": 2}                             the list that was written as the second one

A list comes back exactly, in its order. Writer and reader each keep the names and the last RECENT lists of a segment.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from itertools import pairwise
from typing import Any, cast

import msgspec

from algorithm.interface import SuggestedNodes

#: Lists that can be referred to; names that have numbers; a longer table starts anew.
RECENT = 16
MOST_NAMES = 200_000
#: Runs are looked for if the list begins with some: so many of twice as many names.
_LOOK = 8
#: The longest list that is read.
MOST_OF_LIST = 1_000_000


class NamesError(ValueError):
    """A list refers to what was not written before it."""


class NamesWriter:
    """For one segment."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._written = 0
        self._recent: deque[tuple[int, SuggestedNodes]] = deque(maxlen=RECENT)

    def encode(self, nodes: SuggestedNodes) -> dict[str, Any]:
        """Return the list as it is written. Of a list that was not read yet, its names are not read if it is known."""
        for number, known in reversed(self._recent):
            if nodes is known or nodes.is_same_offer(known):
                return {"same": number}
        self._written += 1
        self._recent.append((self._written, nodes))
        return self._described(tuple(nodes))

    def _described(self, names: tuple[str, ...]) -> dict[str, Any]:
        numbers = list(map(self._numbers.get, names))
        if None not in numbers:
            return _order(cast("list[int]", numbers))
        table, new = self._numbers, [name for name in dict.fromkeys(names) if name not in self._numbers]
        described: dict[str, Any] = {}
        if len(table) + len(new) > MOST_NAMES:
            table.clear()
            new = list(dict.fromkeys(names))
            described["anew"] = True
        table.update(zip(new, range(len(table), len(table) + len(new)), strict=True))
        return described | {"new": new} | _order(list(map(table.__getitem__, names)))


def _order(numbers: list[int]) -> dict[str, Any]:
    """The numbers as runs if there are any, else one by one."""
    begin = numbers[: 2 * _LOOK]
    if len(begin) == 2 * _LOOK and sum(b == a + 1 for a, b in pairwise(begin)) < _LOOK:
        packed = array("H" if max(numbers) < 1 << 16 else "I", numbers)
        if sys.byteorder != "little":
            packed.byteswap()
        return {"at": packed.tobytes()} | ({"wide": True} if packed.typecode == "I" else {})
    return {"runs": _runs(numbers)}


def _runs(numbers: list[int]) -> list[int]:
    """First and length of each run of successive numbers, one after the other."""
    if not numbers:
        return []
    first, count = numbers[0], len(numbers)
    if numbers == list(range(first, first + count)):
        return [first, count]
    runs, expected = [first, 0], first
    for number in numbers:
        if number == expected:
            runs[-1] += 1
        else:
            runs += (number, 1)
        expected = number + 1
    return runs


class _Described(msgspec.Struct):
    same: int | None = None
    anew: bool = False
    new: list[str] = []
    runs: list[int] | None = None
    at: bytes | None = None
    wide: bool = False


class NamesReader:
    """For one segment: decode every list in the order in which they were written."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._written = 0
        self._recent: dict[int, SuggestedNodes] = {}

    def decode(self, written: Any) -> SuggestedNodes:
        """Return the list. Raises NamesError. A plain list of names is one, too (format 1)."""
        try:
            if isinstance(written, list):
                return SuggestedNodes(msgspec.convert(written, type=list[str]))
            described = msgspec.convert(written, type=_Described)
        except msgspec.ValidationError as error:
            raise NamesError(f"nodes: {error}") from error
        if described.same is not None:
            if described.same not in self._recent:
                raise NamesError(f"nodes: there is no list {described.same} before this")
            return self._recent[described.same]
        if described.anew:
            self._names.clear()
        self._names += described.new
        if len(self._names) > MOST_NAMES + MOST_OF_LIST:
            raise NamesError(f"nodes: more than {MOST_NAMES} names")
        nodes = SuggestedNodes(self._listed(described))
        self._written += 1
        self._recent[self._written] = nodes
        self._recent.pop(self._written - RECENT, None)
        return nodes

    def _listed(self, described: _Described) -> list[str]:
        if described.at is not None:
            return self._by_number(described.at, "I" if described.wide else "H")
        listed: list[str] = []
        runs = described.runs or []
        for first, count in zip(runs[::2], runs[1::2], strict=False):
            if first < 0 or count < 0 or first + count > len(self._names) or len(listed) + count > MOST_OF_LIST:
                raise NamesError(f"nodes: there are no names {first} to {first + count - 1}")
            listed += self._names[first : first + count]
        return listed

    def _by_number(self, written: bytes, code: str) -> list[str]:
        numbers = array(code)
        if len(written) % numbers.itemsize:
            raise NamesError("nodes: half a number at the end of a list")
        numbers.frombytes(written)
        if sys.byteorder != "little":
            numbers.byteswap()
        if numbers and max(numbers) >= len(self._names):
            raise NamesError(f"nodes: there is no name {max(numbers)}")
        return [self._names[number] for number in numbers]
