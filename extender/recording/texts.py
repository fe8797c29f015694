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

from typing import Final

import msgspec

from algorithm.interface import SuggestedNodes

#: Bytes of all texts: more than come between two turns of the recorder, and little enough to stay in a cache.
SIZE: Final = 2 << 20
#: The longest text that is kept here; to copy a longer one takes as long as new memory for it.
LONGEST: Final = 32 << 10

_names = msgspec.json.Decoder(tuple[str, ...])


class TextRing:
    """Texts in a ring of `size` bytes. None is split: one that would reach beyond the end is put at the begin.

    A place is the number of bytes that were put before the text since the ring is there, with those left out at ends.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._memory = bytearray(size)
        self._size = size
        #: The bytes that were put, and those of them that are free again.
        self._head = self._tail = 0
        #: Where the last text is, and its length.
        self._last, self._length = 0, 0

    def put(self, text: bytes) -> int:
        """Keep a copy of the text until it is freed, and return its place. -1 if it is longer than LONGEST, if there is
        no room now, or if it is the text that was put last: one that comes again is better kept once."""
        length, at, size = len(text), self._head, self._size
        begin = at % size
        if begin + length > size:
            at, begin = at + size - begin, 0
        tail = at if self._tail == self._head else self._tail
        if length > LONGEST or at + length - tail > size:
            return -1
        if length == self._length and self._memory.startswith(text, self._last % size):
            return -1
        self._memory[begin : begin + length] = text
        self._head, self._last, self._length = at + length, at, length
        return at

    def read(self, place: int, length: int) -> bytes:
        """Return the text of this length, which was not freed."""
        begin = place % self._size
        return bytes(self._memory[begin : begin + length])

    def free(self, place: int, length: int) -> None:
        """Forget this text and all that were put before it."""
        self._tail = place + length


def offer_of(text: bytes) -> SuggestedNodes:
    """Return the offer that came as this JSON array of names."""
    names: list[tuple[str, ...]] = []

    def read() -> tuple[str, ...]:
        if not names:
            names.append(_names.decode(text))
        return names[0]

    return SuggestedNodes.unread(text.count(b",") + 1, lambda name: name in read(), read, text)
