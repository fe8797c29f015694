"""The chunked transfer coding (RFC 9112, 7.1), taken off a body as it comes. No I/O.

A watch comes as one chunk an event. `http.client` gives such chunks out one by one, at a price of several calls into
the socket's buffer each; here whatever has arrived comes off in one go, so that events that came together are handled
together.
"""

from __future__ import annotations

import http.client
import re

_SIZE = re.compile(rb"\r\n([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_END_OF_LINE = b"\r\n"
_END_OF_TRAILERS = b"\r\n\r\n"
#: Nobody sends longer lines between chunks, or more after the last one.
_LONGEST_OVERHEAD = 16 * 1024


class ChunkError(http.client.HTTPException):
    """What came is not in the chunked coding."""


class Chunked:
    """One body. `finished` when its last chunk, and what may follow that, has been fed."""

    def __init__(self) -> None:
        self.finished = False
        self._missing = 0
        #: What could not be understood yet. At a chunk's end there is an end of line: pretend that one has just ended.
        self._held = _END_OF_LINE

    def feed(self, data: bytes) -> bytes:
        """The part of the body that is in `data`. Raises ChunkError. What follows the end is not looked at."""
        if self._held:
            data, self._held = self._held + data, b""
        parts = []
        at = 0
        while at < len(data) and not self.finished:
            if self._missing:
                part = data[at : at + self._missing]
                self._missing -= len(part)
                parts.append(part)
                at += len(part)
            elif following := self._size_line(data, at):
                at = following
            else:
                self._hold(data[at:])
                break
        return b"".join(parts)

    def _size_line(self, data: bytes, at: int) -> int:
        """Reads how long the next chunk is. Returns where that begins; 0 if the line is not complete yet."""
        end = data.find(_END_OF_LINE, at + len(_END_OF_LINE))
        if end < 0:
            return 0
        size = _SIZE.fullmatch(data, at, end)
        if size is None:
            raise ChunkError(f"expected the size of a chunk, got {data[at:end][:40]!r}")
        self._missing = int(size[1], 16)
        if self._missing:
            return end + len(_END_OF_LINE)
        end = data.find(_END_OF_TRAILERS, end)
        self.finished = end >= 0
        return end + len(_END_OF_TRAILERS) if self.finished else 0

    def _hold(self, rest: bytes) -> None:
        if len(rest) > _LONGEST_OVERHEAD:
            raise ChunkError("a line between chunks does not end")
        self._held = rest
