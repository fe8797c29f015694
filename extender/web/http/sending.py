"""The sending half of an HTTP/2 connection: answers wait here until the peer and the transport have room for them.

An answer is sent in steps, as far as flow control allows. What waits is counted in the budget for answers of all
connections together (budget.py). Frames that are made in one iteration of the loop are one write.
"""

from __future__ import annotations

import asyncio
from typing import Final

from h2.exceptions import StreamClosedError
from uvicorn.server import ServerState

from extender.web.http.frames import FrameSplitter
from extender.web.http.outlet import STEP
from extender.web.http.streams import Frames, Stream
from extender.web.limits.budget import Budget

#: Bytes of an answer that may wait for the peer before its application is paused.
_PENDING: Final = 1 << 18


class Sending(asyncio.Protocol):
    """Base of `Http2`, which receives, and decides what becomes of a stream."""

    _transport: asyncio.Transport

    def __init__(self, state: ServerState, answers: Budget, client: str) -> None:
        self._state = state
        self._answers = answers
        self.client = client
        self._loop = asyncio.get_running_loop()
        self._h2 = Frames()
        self._splitter = FrameSplitter()
        self._streams: dict[int, Stream] = {}
        self._flushing = False
        #: Whether the peer may have room for more. Checked once for all frames that arrived together: there are as many
        #: as the peer likes, and a check looks at each stream.
        self._has_room = False
        #: Bytes of all answers that wait for the peer, and how many of them the budget knows of.
        self._unsent = 0
        self.held = 0
        self._write_paused = False
        #: Loop time when the peer last took something, or when there was first something to take.
        self._moved_at = self._loop.time()

    def give_up(self) -> None:
        """Drop the answers that wait: those of all connections exceed the budget, and this connection was chosen."""
        raise NotImplementedError

    def _ended(self, stream: Stream) -> None:
        """The answer is sent."""
        raise NotImplementedError

    def _forget(self, stream: Stream) -> None:
        """Remove a stream that has ended, and release what it holds."""
        raise NotImplementedError

    def _answer(self, stream: Stream, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if stream.gone:
            return
        begin = [(b":status", b"%d" % status), *self._state.default_headers]
        try:
            self._h2.send_headers(stream.number, begin + headers)
        except StreamClosedError:
            stream.leave()

    def _send(self, stream: Stream, data: bytes, *, last: bool) -> None:
        if stream.gone:
            return
        if not self._unsent:
            self._moved_at = self._loop.time()
        stream.unsent += data
        self._unsent += len(data)
        stream.answered = last
        self._send_pending(stream)
        self._count_unsent()
        self._flush_soon()

    def _send_if_room(self) -> None:
        """Check all streams once, however many frames have said that there is room."""
        if self._has_room and not self._write_paused:
            self._has_room = False
            for stream in [each for each in self._streams.values() if each.unsent]:
                self._send_pending(stream)
            self._count_unsent()

    def _count_unsent(self) -> None:
        if self._unsent or self.held:
            self._answers.hold(self, self._unsent)

    def _send_pending(self, stream: Stream) -> None:
        """Send as much as the peer and the transport have room for."""
        number, unsent, before = stream.number, stream.unsent, len(stream.unsent)
        ends = False
        try:
            while unsent and not self._write_paused:
                size = min(len(unsent), self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
                size = min(size, STEP)
                if size <= 0:
                    break
                ends = stream.answered and size == len(unsent)
                self._h2.send_data(number, bytes(unsent[:size]), end_stream=ends)
                del unsent[:size]
                if before - len(unsent) >= STEP:
                    self._flush()  # may find that the transport is full
            self._moved(before - len(unsent))
            if stream.answered and not unsent:
                if not ends:
                    self._h2.end_stream(number)
                self._ended(stream)
        except StreamClosedError:
            self._forget(stream)
        if stream.gone or len(unsent) <= _PENDING:
            stream.room.set()
        else:
            stream.room.clear()

    def _moved(self, size: int) -> None:
        if size:
            self._unsent -= size
            self._moved_at = self._loop.time()
            self._splitter.answered(size)

    def _flush(self) -> None:
        self._flushing = False
        if (data := self._h2.data_to_send()) and not self._transport.is_closing():
            self._transport.write(data)

    def _flush_soon(self) -> None:
        """Make one write for all answers that are there by then."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)
