"""Events that wait to be written: heard under the engine's lock, taken by the recorder's thread. A bounded queue.

    heard(event) --room--> waits, without an answer --said(answer), failed(why)--> waits --taken--> written
         |
         +--full--> left out, and those after it, until half of the room is free: then a Gap is put into the queue

Nothing here blocks: a reference to immutable data is put into the queue, and the thread is woken if it sleeps. Long
offers are shared if they come again, or copied (`texts.py`): what a request has is free again with its answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from algorithm.interface import SuggestedNodes
from extender.recording.records import Gap
from extender.recording.texts import TextRing, offer_of
from extender.scheduling.events import Event, FilterRequested, Instruction, PodSeen, PrioritizeRequested

#: What may wait to be written: events, and their bytes, estimated.
_MOST_EVENTS, _MOST_QUEUED = 100_000, 128 << 20
_BYTES_OF_EVENT, _BYTES_OF_NAME = 1000, 24
#: An annotation without its characters. A pod may have 256 KiB of them.
_BYTES_OF_ANNOTATION = 170
#: An offer of more names is compared with the one before it.
_MANY_NAMES = 400
_NAMELESS = SuggestedNodes()


class Entry(msgspec.Struct, gc=False):
    """One event in the queue. `said` is set once the engine has answered: instructions, or how it failed. `place`, if
    not -1: where `length` bytes of the names are that belong to the event, which has none meanwhile."""

    number: int
    at: float
    event: Event | Gap
    weight: int = _BYTES_OF_EVENT
    place: int = -1
    length: int = 0
    said: Sequence[Instruction] | str | None = None
    is_written: bool = False


class Waiting:
    """`heard`, `said` and `failed` are called under the engine's lock, one after the other; `take` by one thread."""

    def __init__(self) -> None:
        #: Set when there is something to do; `is_awake` when the thread needs no call.
        self.wake = threading.Event()
        self.is_awake = False
        #: Events that were left out, as the queue was full.
        self.lost = 0
        self._queue: deque[Entry] = deque()
        self._last = Entry(0, 0.0, Gap(0, 0, ""))
        #: The last offer of many nodes that was kept.
        self._offer = SuggestedNodes()
        self._texts = TextRing()
        #: Weights that were put into the queue (under the engine's lock) and taken out of it (by the thread).
        self._put = self._taken = 0
        #: The events that are left out now: the first of them; 0: none.
        self._lost_since = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_losing(self) -> bool:
        """Whether events are left out now."""
        return self._lost_since > 0

    def heard(self, event: Event, at: float, number: int) -> None:
        """Record an event, before it is handled. Few lines, since between two calls others use the core: each of them
        is in no cache, and takes ten times as long as in a loop."""
        weight, place, length, queue = _BYTES_OF_EVENT, -1, 0, self._queue
        if isinstance(event, (FilterRequested, PrioritizeRequested)):
            nodes, annotations = event.nodes, event.pod.annotations
            length = len(nodes.text)
            weight += length or _BYTES_OF_NAME * len(nodes)
        else:
            nodes, annotations = None, event.pod.annotations if isinstance(event, PodSeen) else ()
        if annotations:
            weight += _of_annotations(annotations)
        self._put += weight
        if self._put - self._taken > _MOST_QUEUED or len(queue) >= _MOST_EVENTS or self._lost_since:
            self._put -= weight
            if not self._has_room_again(number, at, weight):
                return
            self._put += weight
        if nodes is not None:
            if length and nodes.text == self._offer.text:
                nodes = self._offer
            elif length and (place := self._texts.put(nodes.text)) >= 0:
                nodes = _NAMELESS
            else:
                nodes = self._kept(nodes)
            event = msgspec.structs.replace(event, nodes=nodes)
        self._last = entry = Entry(number, at, event, weight, place, length)
        queue.append(entry)
        if not self.is_awake:
            self.is_awake = True
            self.wake.set()

    def _kept(self, nodes: SuggestedNodes) -> SuggestedNodes:
        """The last offer of many nodes if it is equal, or else this one, without names of its own if they can be read
        again. What an offer has, up to 100 KB, is then free again at once. Comparing offers takes some microseconds,
        new memory for each call ten times as long."""
        if not nodes.is_same_offer(self._offer):
            if not nodes.text and len(nodes) <= _MANY_NAMES:
                return nodes
            self._offer = nodes.bare()
        return self._offer

    def said(self, answer: Sequence[Instruction]) -> None:
        """Record the engine's answer to the latest event."""
        self._last.said = answer

    def failed(self, why: str) -> None:
        """Record that the engine failed at the latest event."""
        self._last.said = why

    def _has_room_again(self, number: int, at: float, weight: int) -> bool:
        """Whether there is room again after a full queue; otherwise the event is left out."""
        is_free = self._put - self._taken + weight < _MOST_QUEUED // 2 and len(self._queue) < _MOST_EVENTS // 2
        if self._lost_since and is_free:
            gap = Entry(number - 1, at, Gap(self._lost_since, number - 1, "the recorder could not keep up"))
            gap.said = ()
            self._put += gap.weight
            self._queue.append(gap)
            self._lost_since = 0
            return True
        self._lost_since = self._lost_since or number
        self.lost += 1
        self._last = Entry(number, at, Gap(0, 0, ""))
        return False

    def first(self) -> Entry | None:
        """Return the entry that is to be written next, and leave it in the queue; None if there is none."""
        if not self._queue:
            return None
        entry = self._queue[0]
        if entry.place >= 0 and isinstance(entry.event, (FilterRequested, PrioritizeRequested)):
            nodes = offer_of(self._texts.read(entry.place, entry.length))
            entry.event = msgspec.structs.replace(entry.event, nodes=nodes)
            self._free(entry)
        return entry

    def take(self) -> None:
        """Remove the first entry: it is written, or cannot be."""
        entry = self._queue.popleft()
        self._free(entry)
        self._taken += entry.weight

    def _free(self, entry: Entry) -> None:
        if entry.place >= 0:
            self._texts.free(entry.place, entry.length)
            entry.place = -1


def _of_annotations(annotations: Sequence[tuple[str, str]]) -> int:
    return sum([_BYTES_OF_ANNOTATION + len(name) + len(value) for name, value in annotations])
