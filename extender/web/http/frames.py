"""Splits what an HTTP/2 peer sends at the boundaries of frames, so that it is handled in small batches.

h2 handles all the data that it is given before it returns, and buffers a frame up to the length that its header
announces. A batch here has whole frames that take about a millisecond; a frame beyond the limit is refused at its
header; and frames that ask for nothing (PING, SETTINGS, empty DATA) are counted against the requests and bytes that
were exchanged.

    nine bytes: length (3), type (1), flags (1), stream (4); then `length` bytes          (RFC 9113, section 4.1)
"""

from __future__ import annotations

from typing import Final

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

_HEADER: Final = 9
_PREFACE: Final = 24
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _CONTINUATION = 0, 1, 3, 4, 9
_END_STREAM: Final = 1
_END_HEADERS: Final = 4

#: Bytes of a frame: the least that a server must accept, and h2's default.
LARGEST: Final = 16_384
#: Bytes of one header block, in all its frames.
LARGEST_BLOCK: Final = 1 << 16
#: Cost of the frames of a batch, in units of a PING (some 10 microseconds).
BATCH: Final = 64
#: The same for data that is handled where it is received: HEADERS and DATA of one call.
AT_ONCE: Final = 10
_COSTS: Final = {_HEADERS: 8, _SETTINGS: 8, _CONTINUATION: 2, _RST_STREAM: 2}

#: Frames that a peer may send without a request, at first and in each second.
_FREE: Final = 1_000
_FREE_A_SECOND: Final = 20
#: Frames allowed for each request. Go's client sends a WINDOW_UPDATE or two for each 4 KiB that it has taken.
_FREE_A_REQUEST: Final = 16
#: Bytes of a body or an answer that allow one more frame.
_BYTES_A_FRAME: Final = 256


class FrameError(ProtocolError):
    """A fault of the peer: it is sent this text and code, and the connection ends."""

    def __init__(self, text: str, code: ErrorCodes) -> None:
        super().__init__(text)
        self.error_code = code


class FrameSplitter:
    """The bytes of one peer that were not handled yet."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._preface = _PREFACE
        self._block = 0
        self._spent = 0
        self._earned = _FREE

    def add(self, data: bytes) -> None:
        self._data += data

    def clear(self) -> None:
        self._data.clear()

    @property
    def in_head(self) -> bool:
        """Whether the connection's preface or a header block is incomplete."""
        return self._preface > 0 or self._block > 0

    @property
    def in_frame(self) -> bool:
        """Whether part of a frame has arrived."""
        return bool(self._data)

    @property
    def has_batch(self) -> bool:
        """Whether `next_batch` would return a batch, or raise."""
        size = len(self._data)
        if self._preface:
            return size > 0
        if size < _HEADER:
            return False
        length = int.from_bytes(self._data[:3])
        return length > LARGEST or size >= _HEADER + length

    @property
    def begins_post(self) -> bool:
        """Whether the next frame begins a request that has a body."""
        data = self._data
        return len(data) >= _HEADER and data[3] == _HEADERS and not data[4] & _END_STREAM

    def answered(self, size: int) -> None:
        """Count `size` bytes that were sent to the peer, which needs frames to take them."""
        self._earned += 1 + size // _BYTES_A_FRAME

    def is_calm(self, seconds: float) -> bool:
        """Whether the number of frames fits the requests and bytes so far, `seconds` after the beginning."""
        return self._spent <= self._earned + _FREE_A_SECOND * seconds

    def next_batch(self, most: int = BATCH) -> bytes:
        """Return whole frames, b"" if there are none. Raises FrameError if the next frame is larger than allowed."""
        data = self._data
        end = min(self._preface, len(data))
        self._preface -= end
        cost = 0
        while cost < most and len(data) - end >= _HEADER:
            length, kind = int.from_bytes(data[end : end + 3]), data[end + 3]
            if length > LARGEST:
                if end:
                    break  # the data before it is handled first
                raise FrameError(f"a frame of {length} bytes; {LARGEST} are allowed", ErrorCodes.FRAME_SIZE_ERROR)
            if len(data) - end < _HEADER + length:
                break
            self._count(kind, data[end + 4], length)
            cost += _COSTS.get(kind, 1)
            end += _HEADER + length
        batch = bytes(data[:end])
        del data[:end]
        return batch

    def _count(self, kind: int, flags: int, length: int) -> None:
        self._spent += 1
        if kind == _DATA:
            self._earned += length // _BYTES_A_FRAME
        elif kind in (_HEADERS, _CONTINUATION):
            if kind == _HEADERS:
                self._earned += _FREE_A_REQUEST
            self._block += length + 1
            if self._block > LARGEST_BLOCK:
                raise FrameError(f"a header block of more than {LARGEST_BLOCK} bytes", ErrorCodes.ENHANCE_YOUR_CALM)
            if flags & _END_HEADERS:
                self._block = 0
