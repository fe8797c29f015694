"""The receiving half of an HTTP/2 connection: from h2's events to complete requests, and what becomes of a stream.

RequestReceived --> a verb, as kube-scheduler posts it, or a request for the application
DataReceived    --> the body, counted in the budget for incomplete bodies (budget.py)
StreamEnded     --> a verb waits for its turn in `_calls`; an application waits in `_pages` from its headers on
StreamReset     --> the request is taken back
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import structlog
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import StreamClosedError
from uvicorn.server import ServerState

from extender.web.http.departure import departure_extension
from extender.web.http.page_runs import scope_of
from extender.web.http.peers import Peer
from extender.web.http.sending import Sending
from extender.web.http.streams import STREAM_BYTES, Stream
from extender.web.limits.budget import Budget

_log = structlog.get_logger(__name__)

#: Bytes of a body up to which it is answered where it is received; a larger one waits for its turn.
_LARGE_BODY: Final = 64 * 1024
#: Bytes of header fields that are remembered for the peer: the usual limit.
_TABLE: Final = 4096
#: Requests that a peer may reset before it counts as a peer that does nothing else (CVE-2023-44487).
_RESETS: Final = 1000


class Receiving(Sending):
    """Base of `Http2`, which owns the connection and its turns, and begins what waits."""

    _addresses: dict[str, Any]

    def __init__(self, state: ServerState, bodies: Budget, answers: Budget, peer: Peer) -> None:
        super().__init__(state, answers, peer.address)
        self._bodies = bodies
        self._peer = peer
        self._verbs = peer.verbs
        #: Streams whose body is not complete, the oldest first.
        self._incomplete: dict[int, Stream] = {}
        #: Streams that wait to be begun: complete calls of verbs, and requests for the application.
        self._calls: dict[int, Stream] = {}
        self._pages: dict[int, Stream] = {}
        #: Whether the next request is the first of the data that arrived together, and may begin at once.
        self._at_once = False
        self._last = 0
        self._resets = 0
        #: Whether no further streams are accepted.
        self._ending = False
        self._used_at = self._loop.time()
        #: Loop time of the last complete answer.
        self.last_completed = -math.inf

    def _begin_next(self) -> bool:
        """Answer a call or start a page, if one waits and may be begun."""
        raise NotImplementedError

    def _fail(self, error: str, code: ErrorCodes | None = None) -> None:
        """End the connection because of a fault of the peer."""
        raise NotImplementedError

    def _end_if_done(self) -> None:
        """Close the connection if it is to end and no stream is left."""
        raise NotImplementedError

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(number), headers=[*headers]):
                self._begin(number, dict(headers), headers, complete=event.stream_ended is not None)
            case DataReceived(stream_id=int(number), data=bytes(data), flow_controlled_length=int(length)):
                self._receive(number, data, length, complete=event.stream_ended is not None)
            case StreamEnded(stream_id=int(number)):
                self._complete(self._streams.get(number))
            case StreamReset(stream_id=int(number)):
                self._taken_back(number)
            case WindowUpdated():
                self._has_room = True
            case RemoteSettingsChanged():
                self._has_room = True
                encoder = self._h2.encoder  # the peer may offer memory of ours without limit
                encoder.header_table_size = min(encoder.header_table_size, _TABLE)
            case ConnectionTerminated():
                self._ending = True
                self._end_if_done()

    def _begin(
        self, number: int, named: Mapping[bytes, bytes], headers: list[tuple[bytes, bytes]], *, complete: bool
    ) -> None:
        """Open a stream: for a verb on the fast path, or for the application."""
        if self._ending:
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)  # the sender may try again elsewhere
            return
        method, target = named.get(b":method", b""), named.get(b":path", b"")
        endpoint = self._verbs.get(target) if method == b"POST" and b"origin" not in named else None
        if endpoint is not None and not endpoint.takes(named.get(b"content-length", b"")):
            endpoint = None
        self._last = number
        stream = Stream(number, method, endpoint, self._loop.time(), self._refuse, self.client)
        self._streams[number] = stream
        if endpoint is None:
            stream.scope = scope_of(method, target, headers) | self._addresses | {"state": {"peer": self._peer}}
            stream.scope["extensions"] = departure_extension(self._transport)
            self._pages[number] = stream
            self._begin_at_once(stream)
        if not complete:
            self._incomplete[number] = stream
            self._bodies.hold(stream, STREAM_BYTES)

    def _begin_at_once(self, stream: Stream) -> None:
        """Begin the stream, unless others wait, or it is not the first of the data that arrived together."""
        if self._at_once and len(self._calls) + len(self._pages) == 1 and len(stream.received) <= _LARGE_BODY:
            self._at_once = not self._begin_next()

    def _receive(self, number: int, data: bytes, length: int, *, complete: bool) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.answered or stream.gone:
            self._h2.acknowledge_received_data(length, number)
            return
        stream.received += data
        if stream.endpoint is None:
            stream.used += length
            stream.news.set()
        else:
            self._h2.acknowledge_received_data(length, number)
        if not complete:
            self._bodies.hold(stream, STREAM_BYTES + len(stream.received))

    def _take(self, stream: Stream) -> bytes:
        """Take the received part of the body, and give the peer room for as much again."""
        body, used = bytes(stream.received), stream.used
        stream.received, stream.used = bytearray(), 0
        if stream.held:
            self._bodies.hold(stream, 0 if stream.complete else STREAM_BYTES)
        self._h2.acknowledge_received_data(used, stream.number)
        return body

    def _complete(self, stream: Stream | None) -> None:
        """The request is complete: a verb can be answered."""
        if stream is None:
            return
        stream.complete = True
        stream.news.set()
        self._incomplete.pop(stream.number, None)
        if stream.held:  # until the body is taken
            self._bodies.hold(stream, len(stream.received))
        if stream.gone:
            self._forget(stream)
        elif stream.endpoint is not None:
            self._calls[stream.number] = stream
            self._begin_at_once(stream)

    def _taken_back(self, number: int) -> None:
        if (stream := self._streams.get(number)) is not None:
            self._forget(stream)
        self._resets += 1
        if self._resets > max(_RESETS, self._last // 4):  # half of them: a client's streams have odd numbers
            self._fail("most requests are taken back", ErrorCodes.ENHANCE_YOUR_CALM)

    def _refuse(self, stream: Stream, code: ErrorCodes = ErrorCodes.REFUSED_STREAM) -> None:
        """Give up waiting for the body. The sender may try again, unless the body came too slowly."""
        if self._streams.get(stream.number) is not stream:
            return
        _log.warning("body_refused", client=self._addresses["client"], bytes=len(stream.received), code=code.name)
        with suppress(StreamClosedError):
            self._h2.reset_stream(stream.number, code)
        self._forget(stream)
        self._flush_soon()

    # -- the end of a stream ----------------------------------------------------------------------------------------

    def _ended(self, stream: Stream) -> None:
        """The request is answered. The rest of its body is discarded: many clients read no answer before they have sent
        it."""
        stream.leave()
        self._take(stream)
        self._used_at = self.last_completed = self._loop.time()
        if stream.complete:
            self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        """Remove a stream that has ended, and release what it holds."""
        number = stream.number
        self._streams.pop(number, None)
        for streams in (self._incomplete, self._calls, self._pages):
            streams.pop(number, None)
        if stream.unsent:
            self._unsent -= len(stream.unsent)
            stream.unsent.clear()
            self._count_unsent()
        if stream.held:
            self._bodies.hold(stream, 0)
        if stream.used:  # the other streams need the room
            self._h2.acknowledge_received_data(stream.used, number)
            stream.used = 0
        stream.leave()
        self._end_if_done()
