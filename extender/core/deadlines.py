"""When something is due, by key: the only timer mechanism of the engines.

    set(key, at) --> [waits] --- at <= now ---> [due]: `due` returns it until it is set anew, discarded or popped
                      ^   |
                      +---+ set: another time

Promises: a key has one deadline at most. Only `discard` and `pop` lose a deadline, so work that was due and failed is
due again. The first deadline is known at once. Every operation costs the logarithm of the number of keys; memory grows
with the keys, however often they are set.

Keys with equal times are due in the order in which they first got that time. So a pod that asks again, and waits for
the same moment again, does not lose its place in a queue. (A place is forgotten when its time was the first of all
while no key had it.)

Times are seconds of a monotonic clock. An infinite time means no deadline.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from algorithm.tables import Table

K = TypeVar("K", bound=Hashable)

#: Outdated entries that the heap may have besides as many as there are keys.
_SLACK = 64


class Alarm:
    """A time before which nothing of several `Deadlines` is due: so that an engine need not look at all of them.

    Deadlines that are set make it earlier. Those that are discarded do not make it later, so it may come too early:
    then `reset` finds out when it comes next.
    """

    __slots__ = ("_all", "at")

    def __init__(self) -> None:
        #: Seconds of the clock of the deadlines; infinite: nothing is due.
        self.at = math.inf
        self._all: list[Deadlines[Any]] = []

    def watch(self, deadlines: Deadlines[Any]) -> None:
        self._all.append(deadlines)

    def reset(self) -> float:
        """Set it to the first deadline of all, and return that; infinite if there is none."""
        first = earliest(self._all)
        self.at = math.inf if first is None else first
        return self.at


class Deadlines(Generic[K]):
    """One deadline for each key. `alarm`: is made as early as any deadline that is set."""

    __slots__ = ("_alarm", "_entries", "_heap", "_last", "_places")

    def __init__(self, alarm: Alarm | None = None) -> None:
        self._alarm = alarm
        if alarm is not None:
            alarm.watch(self)
        #: The current heap entry of each key: time, number, key. The number keeps the order among equal times.
        self._entries: Table[K, tuple[float, int, K]] = Table()
        #: All current entries, and outdated ones of keys that were set again or discarded.
        self._heap: list[tuple[float, int, K]] = []
        #: The same by key and time: a key has one place in the order of each time.
        self._places: Table[tuple[K, float], tuple[float, int, K]] = Table()
        self._last = 0

    def set(self, key: K, at: float) -> None:
        """Make the key due at this time, whatever it was before; never, if the time is infinite."""
        if at == math.inf:
            self._entries.pop(key, None)
            return
        alarm = self._alarm
        if alarm is not None and at < alarm.at:
            alarm.at = at
        place = key, at
        entry = self._places.get(place)
        if entry is not None:
            self._entries[key] = entry
            return
        self._last += 1
        entry = self._entries[key] = self._places[place] = (at, self._last, key)
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = sorted(self._entries.values())
            self._places = Table(((entry[2], entry[0]), entry) for entry in self._heap)

    def discard(self, key: K) -> None:
        """Remove the key's deadline, if it has one."""
        self._entries.pop(key, None)

    def first(self) -> float | None:
        """Return the earliest deadline; None if there is none."""
        heap = self._heap
        while heap and self._entries.get(heap[0][2]) is not heap[0]:
            at, _, key = heappop(heap)
            del self._places[key, at]
        return heap[0][0] if heap else None

    def due(self, now: float) -> list[K]:
        """Return the keys whose time has come, by deadline and then in the order in which they got it."""
        found: list[tuple[float, int, K]] = []
        while (at := self.first()) is not None and at <= now:
            found.append(heappop(self._heap))
        for entry in found:
            heappush(self._heap, entry)
        return [key for _, _, key in found]

    def pop(self, now: float) -> K | None:
        """Remove and return the first key whose time has come; None if there is none."""
        at = self.first()
        if at is None or at > now:
            return None
        key = heappop(self._heap)[2]
        del self._entries[key], self._places[key, at]
        return key

    def get(self, key: K) -> float | None:
        """Return the key's deadline; None if it has none."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """The keys, in no order that means anything."""
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def validate(self) -> None:
        """Raise AssertionError if a key would never be due."""
        heap = {id(entry) for entry in self._heap}
        lost = [key for key, entry in self._entries.items() if id(entry) not in heap]
        assert not lost, f"they will never be due: {lost}"


def earliest(timers: Iterable[Deadlines[Any]]) -> float | None:
    """Return the first deadline of all; None if there is none. An engine asks this after every event."""
    found = None
    for timer in timers:
        heap = timer._heap
        if not heap or (found is not None and heap[0][0] >= found):
            continue
        at = heap[0][0] if timer._entries.get(heap[0][2]) is heap[0] else timer.first()
        if at is not None and (found is None or at < found):
            found = at
    return found


def first_of(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two times; None if neither is a time."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
