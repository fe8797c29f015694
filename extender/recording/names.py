"""Long lists of node names: kube-scheduler offers the same thousands with every pod, or some hundreds in another order.

    ["b", "a"]                              a list as it came, which nothing refers to later
    {"new": ["a", "b"], "runs": [0, 2]}     names that were not written before get the next numbers; then the list as
    {"runs": [1, 1, 0, 1]}                  runs of numbers, first and length: here b, a
    {"at": "BQADAAkA"}                      or number by number, if there is no order in it: two bytes each, or four
    {"same": 2}                             the list that was written as the second one of those in braces

A list comes back exactly, in its order. Writer and reader each keep the names and the last RECENT lists of a segment.

To number names takes a fifth of a microsecond for each, in which no other thread of Python runs. So that is done only
for lists that will be referred to: the first one, one that comes again, and one of EVERY others. All others are written
as they came: the bytes of the request are copied, and zlib compresses them while other threads run. All readers of
format 2 read such lists.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from itertools import pairwise
from typing import Any, NamedTuple, cast

import msgspec

from algorithm.interface import SuggestedNodes

#: Lists that can be referred to; names that have numbers; a longer table starts anew.
RECENT = 16
MOST_NAMES = 200_000
#: Of so many lists that are like none before, one gets numbers: the names may be others by now.
EVERY = 200
#: Runs are looked for if the list begins with some: so many of twice as many names.
_LOOK = 8
#: Runs of a list whose rotations are looked for, twice as many numbers.
_MOST_OF_RING = 32
#: Bytes by which the beginning of a list is looked for in another one.
_NEEDLE = 64
#: The longest list that is read.
MOST_OF_LIST = 1_000_000


class NamesError(ValueError):
    """A list refers to what was not written before it."""


class _Ring(NamedTuple):
    """A list of few runs, which may come again beginning elsewhere. `twice`: its names, two times in a row."""

    twice: bytes
    runs: list[int]

    def rotated(self, text: bytes) -> list[int] | None:
        """Return the runs of a list that has the same names, but begins elsewhere; None if it is not one."""
        size = len(self.twice) // 2
        if len(text) != size + 1:
            return None
        at = self.twice.rfind(text[1 : 1 + _NEEDLE], 0, size - 1 + _NEEDLE)  # several times as fast as `find`
        if at < 0 or not self.twice.startswith(text[1:-1], at):
            return None
        return _split(self.runs, self.twice.count(b",", 0, at))


def _split(runs: list[int], before: int) -> list[int]:
    """The runs after so many names, and then those before."""
    head: list[int] = []
    tail: list[int] = []
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        skipped = min(before, count)
        before -= skipped
        head += (first, skipped) if skipped else ()
        tail += (first + skipped, count - skipped) if skipped < count else ()
    return tail + head


class NamesWriter:
    """For one segment."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._written = 0
        #: The last lists that can be referred to, and those that were written as they came, each as a JSON array.
        self._recent: deque[bytes] = deque(maxlen=RECENT)
        self._plain: deque[bytes] = deque(maxlen=RECENT)
        #: How many were written as they came since a list got numbers.
        self._others = 0
        self._ring: _Ring | None = None

    def encode(self, nodes: SuggestedNodes) -> dict[str, Any] | msgspec.Raw:
        """Return the list as it is written. Its names are read only if they get numbers, or came in another form."""
        text = nodes.text or msgspec.json.encode(tuple(nodes))
        if text in self._recent:
            return {"same": self._written - len(self._recent) + 1 + self._recent.index(text)}
        if self._ring is not None and (runs := self._ring.rotated(text)) is not None:
            self._refer(text)
            return {"runs": runs}
        if self._written and self._others < EVERY and text not in self._plain:
            self._plain.append(text)
            self._others += 1
            return msgspec.Raw(text)
        self._others = 0
        self._refer(text)
        return self._described(tuple(nodes), text)

    def _refer(self, text: bytes) -> None:
        """Number the list, so that later ones may refer to it."""
        self._written += 1
        self._recent.append(text)

    def _described(self, names: tuple[str, ...], text: bytes) -> dict[str, Any]:
        numbers, new = list(map(self._numbers.get, names)), {}
        if None in numbers:
            new = self._new(names)
            numbers = list(map(self._numbers.get, names))
        order = _order(cast("list[int]", numbers))
        if 0 < len(runs := order.get("runs", ())) <= _MOST_OF_RING:
            self._ring = _Ring(b"%s,%s," % (text[1:-1], text[1:-1]), runs)
        return new | order

    def _new(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Give numbers to names that have none."""
        table, new = self._numbers, [name for name in dict.fromkeys(names) if name not in self._numbers]
        described: dict[str, Any] = {}
        if len(table) + len(new) > MOST_NAMES:
            table.clear()
            self._ring = None
            new = list(dict.fromkeys(names))
            described["anew"] = True
        table.update(zip(new, range(len(table), len(table) + len(new)), strict=True))
        return described | {"new": new}


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


def _plain(written: list[Any]) -> list[str]:
    if len(written) > MOST_OF_LIST:
        raise NamesError(f"nodes: more than {MOST_OF_LIST} names")
    return msgspec.convert(written, type=list[str])


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
        """Return the list. Raises NamesError."""
        try:
            if isinstance(written, list):
                return SuggestedNodes(_plain(written))
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
        if len(written) > MOST_OF_LIST * numbers.itemsize:
            raise NamesError(f"nodes: more than {MOST_OF_LIST} names")
        numbers.frombytes(written)
        if sys.byteorder != "little":
            numbers.byteswap()
        if numbers and max(numbers) >= len(self._names):
            raise NamesError(f"nodes: there is no name {max(numbers)}")
        return [self._names[number] for number in numbers]
