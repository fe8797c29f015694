"""HTTP/1.1 as the server speaks it: uvicorn's, with a fast path for kube-scheduler's verbs, and bounds for all callers.

    headers --> a verb, posted as kube-scheduler does? --no--> uvicorn: a task, ASGI, FastAPI's routing
                  |yes                                            |
                body --> VerbHandler.answer                       |
                              +---- Outlet: one write ------------+

kube-scheduler's scheduling loop stands still while `/filter` is answered, and a task with Starlette's request and
response around it takes longer than the answer. The fast path is for `POST` of a verb's exact path with a
Content-Length within the limit. Everything else (pages, misspelt paths, bodies of unknown length) goes through uvicorn,
and gets the same answer.

The parser gets a few kilobytes at a time, and one request of a connection is answered in a turn (turns.py). Nothing
more is read, parsed or begun while requests of the connection wait or the peer does not take its answers. Unfinished
bodies and answers are counted (budget.py). A head has 10 seconds, its body 30, and so has each part of an answer; an
idle connection ends. Heads and trailers, which the parser keeps, have limits.

A request that asks for another protocol (Upgrade) is served without it, as RFC 9110 allows. If it also has a body, it
is refused, because the parser does not read it. Connections on which TLS has agreed on HTTP/2 go to http2.py.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any, Final

import httptools
import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from extender.web.errors import BadRequest
from extender.web.http.calls import Call, Cycle, Flow, soon_in
from extender.web.http.departure import departure_extension
from extender.web.http.outlet import GONE, Outlet, limit_read_buffer
from extender.web.http.peers import Peer
from extender.web.limits.budget import Budget, budgets_of
from extender.web.limits.turns import BULK, Turns
from extender.web.verbs.handler import Reply, VerbHandler

_log = structlog.get_logger(__name__)

#: Bytes of a request line with its headers; kube-scheduler's are some 200. Data that arrives in one piece may be more.
_LONGEST_HEAD: Final = 64 * 1024
#: Header fields and trailers of a request.
_MOST_FIELDS: Final = 256
#: Bytes that are parsed at once, until a request has to wait.
_PIECE: Final = 4 * 1024
#: Bytes of a body up to which it is answered where it is received; a larger one waits for its turn.
LARGE_BODY: Final = 64 * 1024
#: Seconds for a request's head, for its body, and until a peer takes more of an answer.
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 30.0

_SLOW: Final = f"body: not complete after {BODY_SECONDS:g} seconds"


#: Browsers send an Origin: doors.py refuses such a request.
_LOOKED_FOR: Final = (b"content-length", b"origin")


class WaggleProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, config: Config, state: ServerState, peer: Peer) -> None:
        super().__init__(config, state, {"peer": peer})
        self._peer = peer
        self._verbs = peer.verbs
        self._bodies: Budget
        self._bodies, self._answers = budgets_of(self.app)
        #: Received, and not parsed yet.
        self._unparsed = memoryview(b"")
        #: Headers or trailers are being received: their bytes without those of the piece in which they began, which may
        #: have held the end of another request.
        self._in_head = self._head_begins = True
        self._head_bytes = 0
        #: The connection ends with the next answer.
        self._ends = False
        #: The error in the data that comes next. It is answered after all requests before it; nothing more is read.
        self._wrong = ""
        #: The cycle that receives the parser's body, and the one that is being answered; the pipeline is between them.
        self._receiving: Cycle | None = None
        self._answering: Cycle | None = None
        #: The request to begin in the next turn.
        self._due: tuple[Cycle, Any] | None = None
        #: Whether the first request of the data that arrived together may be answered at once.
        self._at_once = False
        #: Bytes of a verb's body that are yet to come.
        self._body_left = 0
        #: Loop time by which the head or body that is being received must be complete.
        self._deadline: float | None = None
        self._idle_since = 0.0
        #: Loop time of the last complete answer.
        self.last_completed = -math.inf

    # -- the connection ---------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return self._peer.address

    @property
    def has_call(self) -> bool:
        """Whether a verb is being received or waits to be answered, or another POST has begun to arrive."""
        if self._due is not None:
            return isinstance(self._due[0], Call)
        return isinstance(self._receiving, Call) or (bool(self._verbs) and bytes(self._unparsed[:5]) == b"POST ")

    @property
    def trusted(self) -> bool:
        return self._peer.trusted

    @property
    def has_backlog(self) -> bool:
        """Whether requests wait behind the one that is being answered."""
        return self._answering is not None and bool(self._unparsed or self.pipeline)

    @property
    def busy(self) -> bool:
        """Whether a complete request is being answered."""
        cycle = self._answering
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def abort(self) -> None:
        """End the connection at once, whatever is in progress."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._outlet = Outlet(transport, self._answers, self._on_outlet, self._peer.address)
        limit_read_buffer(transport)
        super().connection_made(self._outlet)
        self._extensions = departure_extension(self._outlet)
        self._flow = self.flow = Flow(self._outlet, self._go_on)
        self._idle_since = self.loop.time()
        self._soon = soon_in(self.loop)
        self._turns = Turns.of_running_loop()
        self._turns.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._turns.unwatch(self)
        self._unparsed = memoryview(b"")
        for cycle in (self._answering, self._receiving, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
            if isinstance(cycle, Call):
                self._bodies.hold(cycle, 0)
        super().connection_lost(exc)
        self._outlet.lost()
        # Break reference cycles: otherwise the objects would be kept until the garbage collector runs.
        self.pipeline.clear()
        self.cycle = None  # type: ignore[assignment]
        self._answering = self._receiving = self._due = None
        self._flow.resume_writing()
        self.transport = GONE
        self.flow = self._flow = None  # type: ignore[assignment]
        self._peer.ended()

    def renew(self) -> None:
        """Make the peer reconnect after its next answer: Go does not repeat a POST on a connection that was closed."""
        if self.scheme == "https":
            self._ends = True
            if self.cycle is not None:
                self.cycle.keep_alive = False

    def pause_writing(self) -> None:
        self._outlet.pause_writing()

    def resume_writing(self) -> None:
        self._outlet.resume_writing()

    def _on_outlet(self) -> None:
        if self._outlet.is_full:
            self._flow.pause_writing()
            self._flow.set_backlog(backlog=True)
        else:
            self._flow.resume_writing()
            self._go_on()

    def check(self, now: float) -> None:
        """Check the deadlines. Called once a second."""
        stalled = self._outlet.stalled_since()
        if stalled is not None:
            if now - stalled > ANSWER_SECONDS:
                _log.warning("connection_stalled", client=self.client, seconds=ANSWER_SECONDS)
                self.abort()
        elif self._deadline is not None:
            if self._unparsed or self.pipeline:
                self._deadline = now + BODY_SECONDS  # we are what delays the rest of it
            elif now > self._deadline:
                self._end_slow_request()
        elif self._answering is None and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()

    def _end_slow_request(self) -> None:
        self._deadline = None
        if isinstance(self._receiving, Call):
            self._refuse(self._receiving, BadRequest(_SLOW, "body", status=408))
        else:
            self.transport.close()

    # -- turns ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse a first piece at once if the loop has time; the rest waits for a turn."""
        if self._wrong or self.transport.is_closing():
            return
        is_bulk = len(data) > BULK
        if self._unparsed or self._is_held_up():
            self._unparsed = memoryview(bytes(self._unparsed) + data)
        else:
            self._unparsed = memoryview(data)
            if self._turns.admits(call=self.has_call) and not (is_bulk and self._turns.is_busy):
                self._at_once = True
                self._parse_piece()
                self._at_once = False
        if is_bulk or self._unparsed or self._due is not None:
            # To stop reading and go on takes two system calls; a peer that waits for its answer sends nothing more.
            if self._due is None or self._unparsed:
                self._flow.set_backlog(backlog=True)
            self._turns.add(self)

    def turn(self) -> bool:
        """Begin one request, or parse one piece. Returns whether there is more to do."""
        if self.transport.is_closing():
            self._unparsed = memoryview(b"")
            return False
        if self._due is not None and not self._outlet.is_full:
            (cycle, app), self._due = self._due, None
            self._start(cycle, app)
        elif self._unparsed and not self._is_held_up():
            self._parse_piece()
        if self.flow is None or self._outlet.is_full:
            return False
        if self._due is None and not self._unparsed:
            self._flow.set_backlog(backlog=bool(self._wrong))
            self._turns.end_slice()  # its output comes in this iteration of the loop
            return False
        return self._due is not None or not self._is_held_up()

    def _is_held_up(self) -> bool:
        """Whether nothing more may be parsed now. Each of these states ends with `_go_on`."""
        return bool(self.pipeline) or self._due is not None or self._flow.stopped or self._outlet.is_full

    def _go_on(self) -> None:
        if self._unparsed or self._due is not None:
            self._turns.add(self)
        elif self.flow is not None and not self._outlet.is_full and not self._wrong:
            self._flow.set_backlog(backlog=False)

    def _parse_piece(self) -> None:
        """Parse a piece, up to a request that must wait, and the rest of a verb's body that began in the piece.

        Many connections may send a piece at the same moment, and everything that is parsed is kept until it is
        answered.
        """
        left = _PIECE
        while left > 0 and self._unparsed:
            # A head ends here, or a body in chunks.
            end = bytes(self._unparsed[:left]).find(b"\r\n\r\n") + 4
            size = end if end > 3 else left
            left -= max(size, _PIECE // 64)
            self._parse(size)
            while self._body_left and self._unparsed:
                self._parse(self._body_left)
            if self.transport.is_closing() or self._is_held_up():
                break
        call = self._receiving
        if isinstance(call, Call) and call.refusal is None:
            self._bodies.hold(call, len(call.body) or 1)

    def _parse(self, size: int) -> None:
        piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
        self._head_begins = False
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # The upgrade is not done: the following data is HTTP, unless the request was refused.
            rest = piece[upgrade.args[0] :]
            self._unparsed = memoryview(bytes(rest) + bytes(self._unparsed))
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._reject("Invalid HTTP request received.")
        if self._wrong:
            self._unparsed = memoryview(b"")
        if self._in_head and not self._head_begins:
            self._head_bytes += len(piece)
            if self._head_bytes > _LONGEST_HEAD:
                self.transport.close()

    def _reject(self, why: str) -> None:
        """Answer the requests before it; then answer that the rest is wrong, and end."""
        self._wrong = why
        self._body_left = 0
        received, self._receiving = self._receiving, None
        if self.pipeline and self.pipeline[0][0] is received:
            self.pipeline.popleft()
        if received is not None and received is self._answering:
            self._answering = self._due = None
        if isinstance(received, Call):
            self._bodies.hold(received, 0)
        if self._answering is None and not self.pipeline:
            self.send_400_response(why)

    # -- callbacks of the parser ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]  # uvicorn's own type knows none
        self._deadline = self.loop.time() + HEAD_SECONDS
        self._begin_head()

    def on_chunk_header(self) -> None:
        """After the last chunk trailers may come, which uvicorn keeps, too."""
        self._begin_head()

    def _begin_head(self) -> None:
        self._in_head = self._head_begins = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _MOST_FIELDS:
            raise ValueError("too many header fields")  # becomes a 400
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Choose the path of a request: a verb becomes a `Call`; any other request is handed to uvicorn."""
        self._in_head = False
        self._deadline = self.loop.time() + BODY_SECONDS
        if self.parser.should_upgrade() and self._has_body():
            self._reject("An upgrade, or CONNECT, with a body is not supported.")
        if self._wrong:
            return
        endpoint = self._verbs.get(self.url)
        if endpoint is None or not self._is_plain(endpoint):
            super().on_headers_complete()
            self.cycle.keep_alive = self.cycle.keep_alive and not self._ends
            self._receiving = self.cycle
            return
        call = Call(
            endpoint, self._refuse, self._peer.address, keep_alive=self.parser.should_keep_alive() and not self._ends
        )
        self.cycle = call  # type: ignore[assignment]  # see Call
        self._receiving = call
        if self._answering is None:
            self._answering = call
        else:
            self._flow.pause_reading()
            self.pipeline.appendleft((call, None))  # type: ignore[arg-type]

    def _has_body(self) -> bool:
        """Whether a request with Upgrade has a body: the parser takes that for the other protocol."""
        return self.parser.get_method() == b"CONNECT" or any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
            for name, value in self.headers
        )

    def _is_plain(self, endpoint: VerbHandler) -> bool:
        """Whether the request that began is for the fast path."""
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return False
        if self.expect_100_continue or self.parser.should_upgrade():
            return False
        found = [each for each in self.headers if each[0] in _LOOKED_FOR]
        if len(found) != 1 or found[0][0] != b"content-length" or not endpoint.takes(found[0][1]):
            return False
        self._body_left = int(found[0][1])
        return True

    def on_body(self, body: bytes) -> None:
        self._in_head = False
        call = self._receiving
        if isinstance(call, Call):
            self._body_left -= len(body)
            if call.refusal is None:
                call.receive(body)
        elif not self._wrong:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete: answer a verb at once or in the next turn."""
        self._in_head = False
        self._deadline = None
        cycle, self._receiving = self._receiving, None
        if not isinstance(cycle, Call):
            if not self._wrong:
                super().on_message_complete()
            return
        self._body_left = 0
        cycle.more_body = False
        if len(cycle.body) > LARGE_BODY:
            self._bodies.hold(cycle, len(cycle.body))
        if cycle is not self._answering or cycle.response_complete:
            return
        if self._at_once and len(cycle.body) <= LARGE_BODY and not self._outlet.is_full:
            self._at_once = False
            self._answer(cycle)
        else:
            self._due = (cycle, None)

    # -- the answer -------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Cycle, app: Any) -> None:
        """Called by uvicorn to begin a request: the first one, or the next of the pipeline."""
        self._answering = cycle
        if isinstance(cycle, Call):
            if cycle.more_body:
                return  # it is begun once it is complete
        elif self._at_once and not self._outlet.is_full:
            self._at_once = False
            self._start(cycle, app)
            return
        self._due = (cycle, app)
        self._turns.add(self)

    def _start(self, cycle: Cycle, app: Any) -> None:
        if isinstance(cycle, Call):
            self._answer(cycle)
        else:
            super()._start_asgi_task(cycle, app)
            self._turns.end_slice()

    def _answer(self, call: Call) -> None:
        if call.held:
            self._bodies.hold(call, 0)
        if call.refusal is not None:
            self._answered(call, call.refusal)
        else:
            call.endpoint.answer(call.take(), partial(self._answered, call), self._soon)

    def _refuse(self, call: Call, error: BadRequest) -> None:
        """Answer the call now; the rest of its body is not kept."""
        call.body = b""
        call.more_body = False
        call.refusal = call.endpoint.refuse(error)
        self._bodies.hold(call, 0)
        if call is self._answering and not call.response_complete:
            self._due = None
            self._answered(call, call.refusal)

    def _answered(self, call: Call, reply: Reply) -> None:
        """Write the answer of a verb."""
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

    def on_response_complete(self) -> None:
        """Like uvicorn's, without a timer for each request: `check` ends idle connections."""
        self.server_state.total_requests += 1
        self.last_completed = self._idle_since = self.loop.time()
        self._answering = None
        if self.transport.is_closing():
            return
        self._flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._wrong:
            self.send_400_response(self._wrong)
        self._go_on()
