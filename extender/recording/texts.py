"""The bytes of offers that wait to be written, in one piece of memory that is used again and again.

    0            tail               head            SIZE
    |....free....|#####waiting######|.....free......|

Some hundred names in no order take 10 KB a call. While the recorder kept them, every request got new memory, which is
in no cache: that made /filter slower by a tenth. To copy the bytes takes half a microsecond, and what the request had
is free again at once.

One thread puts (under the engine's lock); another one reads, and frees what it has read in the order in which it was
put. Nothing waits: if there is no room, the caller keeps the text itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from algorithm.interface import SuggestedNodes

#: Bytes of all texts: more than come between two turns of the recorder, and little enough to stay in a cache.
SIZE: Final = 2 << 20
#: The longest text that is kept here; to copy a longer one takes as long as new memory for it.
LONGEST: Final = 32 << 10

_names = msgspec.json.Decoder(tuple[str, ...])


class Place(NamedTuple):
    """Where a text is: the bytes that were put before it, since the ring is there, and its own."""

    at: int
    length: int

    @property
    def end(self) -> int:
        return self.at + self.length


class TextRing:
    """Texts in a ring of `size` bytes. None is split: one that would reach beyond the end is put at the begin."""

    def __init__(self, size: int = SIZE) -> None:
        self._memory = bytearray(size)
        self._size = size
        #: Bytes that were put, with those left out at ends, and that are free again.
        self._head = self._tail = 0
        self._last = Place(0, 0)

    def put(self, text: bytes) -> Place | None:
        """Keep a copy of the text until it is freed. None if it is longer than LONGEST, or if there is no room now."""
        length, at = len(text), self._head
        begin = at % self._size
        if begin + length > self._size:
            at, begin = at + self._size - begin, 0
        tail = at if self._tail == self._head else self._tail
        if length > LONGEST or at + length - tail > self._size:
            return None
        self._memory[begin : begin + length] = text
        self._head = at + length
        self._last = Place(at, length)
        return self._last

    def is_last(self, text: bytes) -> bool:
        """Whether this is the text that was put last."""
        at, length = self._last
        return length == len(text) and self._memory.startswith(text, at % self._size)

    def read(self, place: Place) -> bytes:
        """Return the text, which was not freed."""
        begin = place.at % self._size
        return bytes(self._memory[begin : begin + place.length])

    def free(self, place: Place) -> None:
        """Forget this text and all that were put before it."""
        self._tail = place.end


def offer_of(text: bytes) -> SuggestedNodes:
    """Return the offer that came as this JSON array of names."""
    names: list[tuple[str, ...]] = []

    def read() -> tuple[str, ...]:
        if not names:
            names.append(_names.decode(text))
        return names[0]

    return SuggestedNodes.unread(text.count(b",") + 1, lambda name: name in read(), read, text)
