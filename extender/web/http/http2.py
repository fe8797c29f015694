"""HTTP/2, which kube-scheduler uses whenever it uses TLS: all its calls share one connection.

kube-scheduler binds in as many goroutines as there are pods to bind, but keeps only two idle connections of HTTP/1.1.
It opens further connections for each call, and with mutual TLS a handshake costs both sides more than the call. The
library `h2` handles the frames; this module connects them with the verbs and the application:

    bytes --FrameSplitter--> a batch of frames a turn --h2--> events
    RequestReceived --> a verb, as kube-scheduler posts it? --no--> a task, ASGI, FastAPI's routing
                          |yes                                        |
        DataReceived... StreamEnded --> VerbHandler.answer -----------+--> headers, data as the peer has room for them

Promises:

* In a turn (turns.py) a connection handles a batch of frames, or answers one request; reading is paused while more
  waits. A peer that sends too many frames for what it asks gets ENHANCE_YOUR_CALM, and its connection ends.
* A verb's body has at most as many bytes as its handler accepts; any other body is not received faster than it is read.
  Incomplete bodies, and answers that peers do not take, have a budget for all connections together (budget.py). No
  further request of a connection is begun while much of its answers is unsent.
* A header block has 10 seconds, a body 30, and a peer has 30 seconds to take a further part of its answers.
* A connection that is to end finishes its streams first (GOAWAY), and the peer opens another one for further requests.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import structlog
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from extender.web.http.calls import soon_in
from extender.web.http.frames import AT_ONCE, BATCH, FrameError
from extender.web.http.outlet import GONE, limit_read_buffer
from extender.web.http.page_runs import run_page
from extender.web.http.peers import Peer
from extender.web.http.receiving import Receiving
from extender.web.http.streams import Stream
from extender.web.limits.budget import budgets_of
from extender.web.limits.turns import BULK, Turns
from extender.web.verbs.handler import Reply

_log = structlog.get_logger(__name__)

#: Bytes of all answers of a connection that may wait for the peer before no further request is begun.
_UNSENT: Final = 1 << 20
#: Applications that run at once for one connection.
_RUNNING: Final = 16
#: Seconds for a header block or the connection's preface, for a body, and until a peer takes more of its answers.
_HEAD_SECONDS: Final = 10.0
_BODY_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 30.0
#: Seconds that a peer at fault gets to read the reason.
_FAREWELL_SECONDS: Final = 0.2


class Http2(Receiving):
    """One connection, from when TLS has agreed on HTTP/2. uvicorn keeps it among its own, and asks it to shut down."""

    def __init__(self, config: Config, state: ServerState, peer: Peer) -> None:
        self._app = config.loaded_app
        super().__init__(state, *budgets_of(self._app), peer)
        self._idle_seconds = config.timeout_keep_alive
        self._soon = soon_in(self._loop)
        self._turns = Turns.of_running_loop()
        self._running = 0
        self._read_paused = False
        #: Whether much has arrived at once: the next data is handled after a turn.
        self._bulk = False
        self._batch_at = self._began = self._loop.time()
        self._closing_since: float | None = None

    # -- the connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        limit_read_buffer(transport)
        self._state.connections.add(self)  # type: ignore[arg-type]  # it needs no more of it than `shutdown`
        self._addresses = {"server": get_local_addr(transport), "client": get_remote_addr(transport)}
        self._h2.begin()
        self._flush()
        self._turns.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it was lost
        self._state.connections.discard(self)
        self._turns.unwatch(self)
        self._abandon()
        # Break reference cycles: the garbage collector would come late.
        self._transport = GONE
        self._h2.dismantle()
        self._peer.ended()

    @property
    def address(self) -> str:
        return self._peer.address

    @property
    def has_call(self) -> bool:
        """Whether a verb waits to be answered, or a POST has begun to arrive."""
        return bool(self._calls) or (self._splitter.begins_post and bool(self._verbs))

    @property
    def trusted(self) -> bool:
        return self._peer.trusted

    @property
    def has_backlog(self) -> bool:
        """False: HTTP/2 requests are meant to arrive together."""
        return False

    @property
    def busy(self) -> bool:
        """Whether a complete request is being answered."""
        return any(stream.complete and not stream.gone for stream in self._streams.values())

    def abort(self) -> None:
        """End the connection at once, whatever is in progress."""
        self._abandon()
        self._transport.abort()

    def give_up(self) -> None:
        """Drop the answers that wait: those of all connections exceed the budget, and this connection was chosen."""
        _log.warning("answers_not_taken", client=self._addresses["client"])
        self.abort()

    def shutdown(self) -> None:
        """Accept no further streams, and end when the open ones have ended. May be called again."""
        self._say_goodbye()
        self._end_if_done()

    def renew(self) -> None:
        """Make the peer reconnect for its next request."""
        self.shutdown()

    def _say_goodbye(self) -> None:
        if not self._ending:
            self._ending = True
            # Not `close_connection`: after that, h2 would end the streams, too.
            self._transport.write(GoAwayFrame(0, last_stream_id=self._last).serialize())

    def _abandon(self) -> None:
        """Nothing can be sent any more: notify what is still running that the peer is gone."""
        self._ending = True
        for stream in self._streams.values():
            self._bodies.hold(stream, 0)
            stream.leave()
        for streams in (self._streams, self._incomplete, self._calls, self._pages):
            streams.clear()
        self._splitter.clear()
        self._unsent = 0
        self._answers.hold(self, 0)

    def _end_if_done(self) -> None:
        if self._ending and not self._streams:
            self._flush()
            self._close()

    def _close(self) -> None:
        if self._closing_since is None:
            self._closing_since = self._loop.time()
            self._transport.close()

    def _fail(self, error: str, code: ErrorCodes | None = None) -> None:
        """End the connection because of a fault of the peer. Without a code, h2 has sent the reason already."""
        _log.warning("bad_http2", client=self._addresses["client"], error=error)
        if code is not None:
            self._h2.close_connection(code)
        self._flush()
        self._abandon()
        if self._closing_since is None:
            # Not `close`: TLS would receive whatever is sent until the peer closes, too.
            self._closing_since = self._loop.time()
            if not self._read_paused:
                self._transport.pause_reading()
            self._loop.call_later(_FAREWELL_SECONDS, self._transport.abort)

    def check(self, now: float) -> None:
        """Check the deadlines. Called once a second."""
        splitter, oldest = self._splitter, next(iter(self._incomplete.values()), None)
        waits_for_peer = self._unsent or self._write_paused
        if self._closing_since is not None:
            if now - self._closing_since > _ANSWER_SECONDS:
                self.abort()
        elif waits_for_peer and now - self._moved_at > _ANSWER_SECONDS:
            _log.warning("connection_stalled", client=self._addresses["client"], seconds=_ANSWER_SECONDS)
            self.abort()
        elif not self._read_paused and splitter.in_head and now - self._batch_at > _HEAD_SECONDS:
            self._fail("a preface or header block that does not end", ErrorCodes.ENHANCE_YOUR_CALM)
        elif not self._read_paused and splitter.in_frame and now - self._batch_at > _BODY_SECONDS:
            self._fail("a frame that does not end", ErrorCodes.ENHANCE_YOUR_CALM)
        elif not self._read_paused and oldest is not None and now - oldest.began > _BODY_SECONDS:
            self._refuse_slow(now)
        elif not self._streams and now - self._used_at > self._idle_seconds:
            self.shutdown()

    def _refuse_slow(self, now: float) -> None:
        for stream in list(self._incomplete.values()):
            if now - stream.began > _BODY_SECONDS:
                self._refuse(stream, ErrorCodes.CANCEL)

    # -- turns ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Handle the first frames at once if the loop has time; the rest waits for a turn."""
        if self._closing_since is not None:
            return
        self._splitter.add(data)
        if self._read_paused:
            return
        is_bulk = len(data) > BULK
        if self._turns.admits(call=self.has_call) and not (is_bulk and self._turns.is_busy):
            self._at_once = True
            self._handle_batch(AT_ONCE)
            self._at_once = False
        if is_bulk or self._has_work():
            self._turns.add(self)
        self._bulk = is_bulk
        self._pause_or_resume()

    def turn(self) -> bool:
        """Begin one request, or handle one batch of frames. Returns whether there is more to do."""
        if self._write_paused or self._transport.is_closing():
            return False
        if self._bulk:
            self._bulk = False
            self._turns.end_slice()  # its output comes in this iteration of the loop
        if not self._begin_next():
            self._handle_batch()
        self._pause_or_resume()
        return self._has_work()

    def _has_work(self) -> bool:
        return self._splitter.has_batch or self._can_begin()

    def _can_begin(self) -> bool:
        if self._unsent > _UNSENT or self._write_paused:
            return False
        return bool(self._calls) or (bool(self._pages) and self._running < _RUNNING)

    def _begin_next(self) -> bool:
        """Answer a call or start a page, if one waits and may be begun. Calls go first: they take no time."""
        if not self._can_begin():
            return False
        waiting = self._calls or self._pages
        stream = waiting.pop(next(iter(waiting)))
        if stream.endpoint is not None:
            self._answer_call(stream)
        else:
            self._run_page(stream)
            self._turns.end_slice()
        return True

    def _pause_or_resume(self) -> None:
        """Pause reading while more work waits or the peer does not take its answers; resume it afterwards."""
        paused = self._write_paused or self._bulk or self._splitter.has_batch
        if paused is self._read_paused or self._closing_since is not None or self._transport.is_closing():
            return
        self._read_paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._batch_at = self._loop.time()
            self._transport.resume_reading()

    def _handle_batch(self, most: int = BATCH) -> None:
        """Pass a batch of whole frames to h2 and handle its events. A fault of the peer ends the connection."""
        splitter = self._splitter
        if self._closing_since is not None:
            splitter.clear()
            return
        was_in_head = splitter.in_head
        try:
            batch = splitter.next_batch(most)
            if batch:
                for event in self._h2.receive_data(batch):
                    if self._closing_since is None:
                        self._handle(event)
                if not (was_in_head and splitter.in_head):
                    self._batch_at = self._loop.time()
                self._send_if_room()
        except FrameError as error:
            self._fail(str(error), ErrorCodes(error.error_code))
            return
        except ProtocolError as error:
            self._fail(str(error) or type(error).__name__)
            return
        if not splitter.is_calm(self._loop.time() - self._began):
            self._fail("frames without a relation to what is asked", ErrorCodes.ENHANCE_YOUR_CALM)
            return
        self._flush()

    # -- outgoing ---------------------------------------------------------------------------------------------------

    def _answer_call(self, stream: Stream) -> None:
        assert stream.endpoint is not None
        body, stream.received = bytes(stream.received), bytearray()
        if stream.held:
            self._bodies.hold(stream, 0)
        stream.endpoint.answer(body, partial(self._reply, stream), self._soon)

    def _reply(self, stream: Stream, reply: Reply) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply.body))]
        self._answer(stream, reply.status, headers)
        self._send(stream, reply.body, last=True)
        if reply.close:
            self.shutdown()

    def pause_writing(self) -> None:
        """The peer does not take its answers: pause all work for it until it does."""
        if not self._unsent:
            self._moved_at = self._loop.time()
        self._write_paused = True
        self._pause_or_resume()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._moved_at = self._loop.time()
        self._has_room = True
        self._send_if_room()
        self._flush()
        self._pause_or_resume()
        if self._has_work():
            self._turns.add(self)

    # -- what runs the application (page_runs.py) ---------------------------------------------------------------------

    def _run_page(self, stream: Stream) -> None:
        self._running += 1
        task = self._loop.create_task(run_page(self._app, self, stream))
        task.add_done_callback(self._state.tasks.discard)
        self._state.tasks.add(task)

    def take(self, stream: Stream) -> bytes:
        body = self._take(stream)
        self._flush_soon()
        return body

    def answer(self, stream: Stream, status: int, headers: list[tuple[bytes, bytes]], *, last_one: bool) -> None:
        self._answer(stream, status, headers)
        if last_one:
            self._say_goodbye()

    def send(self, stream: Stream, data: bytes, *, last: bool) -> None:
        self._send(stream, data, last=last)
        if last:
            # Its handler may have looked whether the peer is there: the loop must not read its end before this is sent.
            self._flush()

    def page_ended(self, stream: Stream, *, cancelled: bool = False) -> None:
        self._running -= 1
        if cancelled:
            return
        if not (stream.gone or stream.answered):
            self._h2.reset_stream(stream.number, ErrorCodes.INTERNAL_ERROR)
            self._forget(stream)
            self._flush_soon()
        if self._can_begin():
            self._turns.add(self)
