"""HTTP as the server speaks it: uvicorn's, with a short cut for kube-scheduler's verbs.

    headers --> a verb, posted as kube-scheduler does? --no--> uvicorn: a task, ASGI, FastAPI's routing
                  |yes
                body --> Endpoint.answer --> one write        (bind: when the outcome is known)

kube-scheduler stands still while `/filter` is answered, and a task with Starlette's request and response around it
takes longer than the answer. The short cut is for `POST` of a verb's very path with a Content-Length within the limit,
over a connection where nothing else is under way. All else (pages, misspelt paths, bodies of unknown length, pipelined
requests, clients that do not read) goes uvicorn's way, and is answered the same. Connections are uvicorn's: keep-alive,
shutting down and counting are not done twice.

A connection whose request line, headers or trailers do not end is closed: uvicorn would keep them all. Those
for which TLS has agreed on HTTP/2 are http2.py's.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from extender.web.peers import Peer
from extender.web.verbs import Endpoint, Reply

#: Bytes of a request line with its headers; kube-scheduler's are some 200. What arrives in one piece may be more.
_LONGEST_HEAD: Final = 64 * 1024


#: Browsers send an Origin: doors.py refuses such a request.
_LOOKED_FOR: Final = (b"content-length", b"origin")


class _Call:
    """A verb under way. uvicorn takes it for its own cycle: what it asks and sets of one is here.

    It ends as one does: it is complete once it is answered, or when nobody is there for the answer any more.
    """

    __slots__ = ("body", "disconnected", "endpoint", "keep_alive", "message_event", "response_complete")

    def __init__(self, endpoint: Endpoint, *, keep_alive: bool) -> None:
        self.endpoint = endpoint
        self.keep_alive = keep_alive
        self.body: list[bytes] = []
        self.disconnected = False
        self.response_complete = False
        self.message_event = _NOBODY_WAITS


#: uvicorn wakes whoever waits for the next part of a body.
_NOBODY_WAITS = asyncio.Event()


class WaggleProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, config: Config, state: ServerState, peer: Peer) -> None:
        super().__init__(config, state, {"peer": peer})
        self._peer = peer
        self._verbs = peer.verbs
        #: Headers or trailers are being received: their bytes without those of the piece in which they began, which
        #: may have held the end of another request.
        self._in_head = self._head_begins = True
        self._head_bytes = 0
        #: It ends with the next answer.
        self._ends = False
        #: What is being received by the short cut.
        self._call: _Call | None = None
        #: Loop time of the last complete answer.
        self.last_completed = -math.inf

    @property
    def busy(self) -> bool:
        """Whether a complete request is being answered."""
        receives = self._call is not None or getattr(self.cycle, "more_body", False)
        return self.cycle is not None and not self.cycle.response_complete and not receives

    def abort(self) -> None:
        """Ends the connection at once, whatever is under way."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._peer.ended()

    def renew(self) -> None:
        """The peer is to connect anew, after its next answer: Go does not repeat a POST that meets an end."""
        if self.scheme == "https":
            self._ends = True
            if self.cycle is not None:
                self.cycle.keep_alive = False

    # -- what the parser found --------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()

    def on_chunk_header(self) -> None:
        """After the last chunk trailers may come, which uvicorn keeps, too."""
        self._begin_head()

    def _begin_head(self) -> None:
        self._in_head = self._head_begins = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        endpoint = self._verbs.get(self.url)
        if endpoint is None or not self._is_plain(endpoint):
            super().on_headers_complete()
            self.cycle.keep_alive = self.cycle.keep_alive and not self._ends
            return
        self._call = _Call(endpoint, keep_alive=self.parser.should_keep_alive() and not self._ends)
        self.cycle = self._call  # type: ignore[assignment]  # see _Call

    def _is_plain(self, endpoint: Endpoint) -> bool:
        """Whether the request that began is one for the short cut."""
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return False
        if self.expect_100_continue or self.parser.should_upgrade() or self.flow.write_paused:
            return False
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        found = [each for each in self.headers if each[0] in _LOOKED_FOR]
        return len(found) == 1 and found[0][0] == b"content-length" and endpoint.takes(found[0][1])

    def on_body(self, body: bytes) -> None:
        self._in_head = False
        if self._call is None:
            super().on_body(body)
        else:
            self._call.body.append(body)

    def on_message_complete(self) -> None:
        self._in_head = False
        call, self._call = self._call, None
        if call is None:
            super().on_message_complete()
        else:
            call.endpoint.answer(b"".join(call.body), partial(self._answered, call), self.loop.call_soon_threadsafe)

    def data_received(self, data: bytes) -> None:
        self._head_begins = False
        super().data_received(data)
        if self._in_head and not self._head_begins:
            self._head_bytes += len(data)
            if self._head_bytes > _LONGEST_HEAD:
                self.transport.close()

    def on_response_complete(self) -> None:
        self.last_completed = self.loop.time()
        super().on_response_complete()

    # -- the answer -------------------------------------------------------------------------------------------------

    def _answered(self, call: _Call, reply: Reply) -> None:
        call.response_complete = True
        if call.disconnected:
            return
        closes = reply.close or not call.keep_alive
        head = [STATUS_LINE[reply.status]]
        for name, value in self.server_state.default_headers:
            head += (name, b": ", value, b"\r\n")
        head.append(b"content-type: application/json\r\ncontent-length: %d\r\n" % len(reply.body))
        head.append(b"connection: close\r\n\r\n" if closes else b"\r\n")
        self.transport.write(b"".join(head) + reply.body)
        if closes:
            self.transport.close()
        self.on_response_complete()
