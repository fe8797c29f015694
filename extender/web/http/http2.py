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
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

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
from h2.exceptions import ProtocolError, StreamClosedError
from hyperframe.frame import GoAwayFrame
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from extender.web.http.frames import AT_ONCE, BATCH, FrameError, FrameSplitter
from extender.web.http.outlet import GONE, STEP, limit_read_buffer
from extender.web.http.peers import Peer
from extender.web.http.streams import STREAM_BYTES, Frames, Stream
from extender.web.limits.budget import budgets_of
from extender.web.limits.turns import BULK, Turns
from extender.web.verbs.handler import Reply

_log = structlog.get_logger(__name__)

#: Bytes of an answer that may wait for the peer before its application is paused.
_PENDING: Final = 1 << 18
#: Bytes of all answers of a connection that may wait for the peer before no further request is begun.
_UNSENT: Final = 1 << 20
#: Applications that run at once for one connection.
_RUNNING: Final = 16
#: Bytes of a body up to which it is answered where it is received; a larger one waits for its turn.
_LARGE_BODY: Final = 64 * 1024
#: Bytes of header fields that are remembered for the peer: the usual limit.
_TABLE: Final = 4096
#: Requests that a peer may reset before it counts as a peer that does nothing else (CVE-2023-44487).
_RESETS: Final = 1000
#: Seconds for a header block or the connection's preface, for a body, and until a peer takes more of its answers.
_HEAD_SECONDS: Final = 10.0
_BODY_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 30.0
#: Seconds that a peer at fault gets to read the reason.
_FAREWELL_SECONDS: Final = 0.2
#: Header names that HTTP/2 does not have.
_OF_HTTP_1: Final = (b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"proxy-connection")


class Http2(asyncio.Protocol):
    """One connection, from when TLS has agreed on HTTP/2. uvicorn keeps it among its own, and asks it to shut down."""

    def __init__(self, config: Config, state: ServerState, peer: Peer) -> None:
        self._app = config.loaded_app
        self._idle_seconds = config.timeout_keep_alive
        self._state = state
        self._peer = peer
        self.client = peer.address
        self._verbs = peer.verbs
        self._bodies, self._answers = budgets_of(self._app)
        self._loop = asyncio.get_running_loop()
        self._turns = Turns.of_running_loop()
        self._h2 = Frames()
        self._splitter = FrameSplitter()
        self._streams: dict[int, Stream] = {}
        #: Streams whose body is not complete, the oldest first.
        self._incomplete: dict[int, Stream] = {}
        #: Streams that wait to be begun: complete calls of verbs, and requests for the application.
        self._calls: dict[int, Stream] = {}
        self._pages: dict[int, Stream] = {}
        self._running = 0
        #: Whether the next request is the first of the data that arrived together, and may begin at once.
        self._at_once = False
        self._last = 0
        self._resets = 0
        self._ending = False
        self._flushing = False
        #: Whether the peer may have room for more. Checked once for all frames that arrived together: there are as many
        #: as the peer likes, and a check looks at each stream.
        self._has_room = False
        #: Bytes of all answers that wait for the peer, and how many of them the budget knows of.
        self._unsent = 0
        self.held = 0
        self._write_paused = False
        self._read_paused = False
        #: Whether much has arrived at once: the next data is handled after a turn.
        self._bulk = False
        self._used_at = self._batch_at = self._moved_at = self._began = self._loop.time()
        self._closing_since: float | None = None
        #: Loop time of the last complete answer.
        self.last_completed = -math.inf

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

    # -- incoming ---------------------------------------------------------------------------------------------------

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
            stream.scope = self._scope(method, target, headers)
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

    # -- outgoing ---------------------------------------------------------------------------------------------------

    def _answer_call(self, stream: Stream) -> None:
        assert stream.endpoint is not None
        body, stream.received = bytes(stream.received), bytearray()
        if stream.held:
            self._bodies.hold(stream, 0)
        stream.endpoint.answer(body, partial(self._reply, stream), self._loop.call_soon_threadsafe)

    def _reply(self, stream: Stream, reply: Reply) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply.body))]
        self._answer(stream, reply.status, headers)
        self._send(stream, reply.body, last=True)
        if reply.close:
            self.shutdown()

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

    def _flush(self) -> None:
        self._flushing = False
        if (data := self._h2.data_to_send()) and not self._transport.is_closing():
            self._transport.write(data)

    def _flush_soon(self) -> None:
        """Make one write for all answers that are there by then."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

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

    # -- ASGI -------------------------------------------------------------------------------------------------------

    def _run_page(self, stream: Stream) -> None:
        self._running += 1
        task = self._loop.create_task(self._run(stream))
        task.add_done_callback(self._state.tasks.discard)
        self._state.tasks.add(task)

    def _scope(self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
        path, _, query = target.partition(b"?")
        named = [(name, value) for name, value in headers if not name.startswith(b":")]
        host = [(b"host", value) for name, value in headers if name == b":authority"]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "scheme": "https",
            "method": method.decode("latin-1"),  # h2 accepts any byte, here and in the path
            "root_path": "",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "headers": host + named,
            "state": {"peer": self._peer},
            **self._addresses,
        }

    async def _run(self, stream: Stream) -> None:
        path, scope = stream.scope["path"], stream.scope
        try:
            await self._app(scope, partial(self._asgi_receive, stream), partial(self._asgi_send, stream))
        except Exception:
            _log.exception("page_failed", path=path)
        finally:
            self._running -= 1
        if not (stream.gone or stream.answered):
            self._h2.reset_stream(stream.number, ErrorCodes.INTERNAL_ERROR)
            self._forget(stream)
            self._flush_soon()
        if self._can_begin():
            self._turns.add(self)

    async def _asgi_receive(self, stream: Stream) -> dict[str, Any]:
        """Return the next part of the body; once all of it was returned, wait for the end of the stream."""
        while not (stream.used or stream.gone or (stream.complete and not stream.handed_over)):
            stream.news.clear()
            await stream.news.wait()
        if stream.gone:
            return {"type": "http.disconnect"}
        stream.handed_over = stream.complete
        body = self._take(stream)
        self._flush_soon()
        return {"type": "http.request", "body": body, "more_body": not stream.complete}

    async def _asgi_send(self, stream: Stream, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            self._answer(stream, message["status"], [each for each in headers if each[0] not in _OF_HTTP_1])
            if (b"connection", b"close") in headers:
                self._say_goodbye()
            return
        body = b"" if stream.method == b"HEAD" else message.get("body", b"")
        self._send(stream, body, last=not message.get("more_body", False))
        await stream.room.wait()
