"""HTTP/2, which kube-scheduler speaks wherever it speaks TLS: all its calls over one connection.

It binds in as many goroutines as there are pods to be bound, but keeps only two idle connections of HTTP/1.1. What is
more is opened anew each time, and with mutual TLS a handshake costs both sides more than the call. The frames are the
business of the library `h2`; here is what stands between them and whoever answers:

    RequestReceived --> a verb, as kube-scheduler posts it? --no--> a task, ASGI, FastAPI's routing
                          |yes                                        |
        DataReceived... StreamEnded --> Endpoint.answer --------------+--> headers, data as the peer has room for them

Promises: an answer that the peer does not take stays with its stream, and streams are limited; a body is at most what
its endpoint takes, and elsewhere is not received faster than it is read; a connection that is to end lets its streams
end first (GOAWAY), and the peer opens another for what comes next.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import structlog
from h2.config import H2Configuration
from h2.connection import H2Connection
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
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from extender.web.peers import Peer
from extender.web.verbs import Endpoint, Reply

_log = structlog.get_logger(__name__)

#: Streams of one connection at once: of pods that are being bound there are rarely more, and Go then opens another.
_STREAMS: Final = 250
#: Bytes that may be on their way to us: of one stream, and of all.
_STREAM_WINDOW: Final = 1 << 20
_WINDOW: Final = 1 << 24
#: Bytes of an answer that may wait for the peer before its application has to.
_PENDING: Final = 1 << 18
#: Bytes of header fields that are remembered for the peer: the usual.
_TABLE: Final = 4096
#: Requests that a peer may take back before it is one that does nothing else (CVE-2023-44487).
_RESETS: Final = 1000
#: Header names that HTTP/2 does not have.
_OF_HTTP_1: Final = (b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"proxy-connection")


class _Stream:
    """One request and its answer."""

    def __init__(self, number: int, method: bytes, endpoint: Endpoint | None) -> None:
        self.number = number
        self.method = method
        self.endpoint = endpoint
        #: Of the body: what has come and was not read yet, and how much of the peer's window that has used. Not the
        #: pieces: they may be empty, and as many as the peer likes.
        self.received = bytearray()
        self.used = 0
        self.complete = False
        self.handed_over = False
        self.gone = False
        #: Something has come, or the peer has gone.
        self.news = asyncio.Event()
        #: Of the answer: what could not be sent yet, and whether that is all of it.
        self.unsent = bytearray()
        self.answered = False
        self.room = asyncio.Event()
        self.room.set()

    def leave(self) -> None:
        self.gone = True
        self.news.set()
        self.room.set()


class _Frames(H2Connection):
    """The frames. A peer that says goodbye opens no further streams, and still waits for the answers to those it has.

    h2 takes a GOAWAY for the end of everything: it throws away what it was to send, and sends nothing any more.
    """

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:  # noqa: ARG002 - h2's form
        return [], [ConnectionTerminated()]


class Http2(asyncio.Protocol):
    """One connection, from when TLS has agreed on it. uvicorn keeps it among its own, and asks it to shut down."""

    def __init__(self, config: Config, state: ServerState, peer: Peer) -> None:
        self._app = config.loaded_app
        self._idle_seconds = config.timeout_keep_alive
        self._state = state
        self._peer = peer
        self._verbs = peer.verbs
        self._loop = asyncio.get_running_loop()
        # What comes is checked; what goes is our own, in lower case already.
        self._h2 = _Frames(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS,
                SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: 1 << 16,
                SettingCodes.ENABLE_CONNECT_PROTOCOL: 0,
            },
        )
        self._streams: dict[int, _Stream] = {}
        self._last = 0
        self._resets = 0
        self._ending = False
        self._flushing = False
        #: The peer may have room for more. Looked at once for all frames that came together: they are as many as it
        #: likes, and it costs a look at each stream.
        self._has_room = False
        self._used_at = self._loop.time()
        #: Loop time of the last complete answer.
        self.last_completed = -math.inf

    # -- the connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._state.connections.add(self)  # type: ignore[arg-type]  # it needs no more of it than `shutdown`
        self._addresses = {"server": get_local_addr(transport), "client": get_remote_addr(transport)}
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW)
        self._flush()
        self._idle = self._loop.call_later(self._idle_seconds, self._end_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it was lost
        self._state.connections.discard(self)
        self._idle.cancel()
        self._abandon()
        self._peer.ended()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                self._handle(event)
            if self._has_room:
                self._has_room = False
                for stream in [each for each in self._streams.values() if each.unsent]:
                    self._send_pending(stream)
        except ProtocolError as error:
            _log.warning("bad_http2", error=str(error) or type(error).__name__)
            self._flush()  # says so to the peer, too
            self._abandon()
            self._transport.close()
            return
        self._flush()

    def pause_writing(self) -> None:
        """The peer does not take what it is sent: nothing more is done for it until it does."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    @property
    def busy(self) -> bool:
        """Whether a complete request is being answered."""
        return any(stream.complete and not stream.gone for stream in self._streams.values())

    def abort(self) -> None:
        """Ends the connection at once, whatever is under way."""
        self._transport.abort()

    def shutdown(self) -> None:
        """No further streams; ends when those there are have ended. May be called again."""
        self._say_goodbye()
        self._end_if_done()

    def renew(self) -> None:
        """The peer is to connect anew, for its next request."""
        self.shutdown()

    def _say_goodbye(self) -> None:
        if not self._ending:
            self._ending = True
            # Not `close_connection`: with that h2 would end the streams, too.
            self._transport.write(GoAwayFrame(0, last_stream_id=self._last).serialize())

    def _abandon(self) -> None:
        """Nothing can be sent any more: whoever still answers is told, or finds out, that nobody is there."""
        self._ending = True
        for stream in self._streams.values():
            stream.leave()
        self._streams.clear()

    def _end_if_done(self) -> None:
        if self._ending and not self._streams:
            self._flush()
            self._transport.close()

    def _end_if_idle(self) -> None:
        left = self._used_at + self._idle_seconds - self._loop.time()
        if self._streams or left > 0:
            self._idle = self._loop.call_later(max(left, 1.0), self._end_if_idle)
        else:
            self.shutdown()

    def _flush(self) -> None:
        self._flushing = False
        if (data := self._h2.data_to_send()) and not self._transport.is_closing():
            self._transport.write(data)

    def _flush_soon(self) -> None:
        """One write for all answers that are there by then."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    # -- what comes -------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(number), headers=[*headers]):
                self._begin(number, dict(headers), headers)
            case DataReceived(stream_id=int(number), data=bytes(data), flow_controlled_length=int(length)):
                self._receive(number, data, length)
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

    def _begin(self, number: int, named: Mapping[bytes, bytes], headers: list[tuple[bytes, bytes]]) -> None:
        if self._ending:
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)  # its sender may try elsewhere
            return
        method, target = named.get(b":method", b""), named.get(b":path", b"")
        endpoint = self._verbs.get(target) if method == b"POST" and b"origin" not in named else None
        if endpoint is not None and not endpoint.takes(named.get(b"content-length", b"")):
            endpoint = None
        self._last = number
        self._streams[number] = stream = _Stream(number, method, endpoint)
        if endpoint is None:
            task = self._loop.create_task(self._run(stream, self._scope(method, target, headers)))
            task.add_done_callback(self._state.tasks.discard)
            self._state.tasks.add(task)

    def _receive(self, number: int, data: bytes, length: int) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.answered:
            self._h2.acknowledge_received_data(length, number)
            return
        stream.received += data
        if stream.endpoint is None:
            stream.used += length
            stream.news.set()
        else:
            self._h2.acknowledge_received_data(length, number)

    def _take(self, stream: _Stream) -> bytes:
        """What was received; there is room for as much again."""
        body, used = bytes(stream.received), stream.used
        stream.received, stream.used = bytearray(), 0
        self._h2.acknowledge_received_data(used, stream.number)
        return body

    def _complete(self, stream: _Stream | None) -> None:
        if stream is None:
            return
        stream.complete = True
        stream.news.set()
        if stream.gone:
            self._forget(stream)
        elif stream.endpoint is not None:
            body, stream.received = bytes(stream.received), bytearray()
            stream.endpoint.answer(body, partial(self._reply, stream), self._loop.call_soon_threadsafe)

    def _taken_back(self, number: int) -> None:
        if (stream := self._streams.get(number)) is not None:
            self._forget(stream)
        self._resets += 1
        if self._resets > max(_RESETS, self._last // 4):  # half of them: streams of a client have odd numbers
            _log.warning("bad_http2", error="most requests are taken back")
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._flush()
            self._abandon()
            self._transport.close()

    # -- what goes --------------------------------------------------------------------------------------------------

    def _reply(self, stream: _Stream, reply: Reply) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply.body))]
        self._answer(stream, reply.status, headers)
        self._send(stream, reply.body, last=True)
        if reply.close:
            self.shutdown()

    def _answer(self, stream: _Stream, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if stream.gone:
            return
        begin = [(b":status", b"%d" % status), *self._state.default_headers]
        try:
            self._h2.send_headers(stream.number, begin + headers)
        except StreamClosedError:
            stream.leave()

    def _send(self, stream: _Stream, data: bytes, *, last: bool) -> None:
        if stream.gone:
            return
        stream.unsent += data
        stream.answered = last
        self._send_pending(stream)
        self._flush_soon()

    def _send_pending(self, stream: _Stream) -> None:
        """What the peer has room for."""
        number, unsent = stream.number, stream.unsent
        ends = False
        try:
            while unsent:
                size = min(len(unsent), self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
                if size <= 0:
                    break
                ends = stream.answered and size == len(unsent)
                self._h2.send_data(number, bytes(unsent[:size]), end_stream=ends)
                del unsent[:size]
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

    def _ended(self, stream: _Stream) -> None:
        """It is answered. What still comes of its body is thrown away: many clients read no answer before."""
        stream.leave()
        self._take(stream)
        self._used_at = self.last_completed = self._loop.time()
        if stream.complete:
            self._forget(stream)

    def _forget(self, stream: _Stream) -> None:
        self._streams.pop(stream.number, None)
        stream.leave()
        self._end_if_done()

    # -- ASGI -------------------------------------------------------------------------------------------------------

    def _scope(self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
        path, _, query = target.partition(b"?")
        named = [(name, value) for name, value in headers if not name.startswith(b":")]
        host = [(b"host", value) for name, value in headers if name == b":authority"]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "scheme": "https",
            "method": method.decode("latin-1"),  # h2 lets any byte through, here and in the path
            "root_path": "",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "headers": host + named,
            "state": {"peer": self._peer},
            **self._addresses,
        }

    async def _run(self, stream: _Stream, scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, partial(self._asgi_receive, stream), partial(self._asgi_send, stream))
        except Exception:
            _log.exception("page_failed", path=scope["path"])
        if not (stream.gone or stream.answered):
            self._h2.reset_stream(stream.number, ErrorCodes.INTERNAL_ERROR)
            self._forget(stream)
            self._flush_soon()

    async def _asgi_receive(self, stream: _Stream) -> dict[str, Any]:
        """Once the whole body is handed over, it waits for the end."""
        while not (stream.used or stream.gone or (stream.complete and not stream.handed_over)):
            stream.news.clear()
            await stream.news.wait()
        if stream.gone:
            return {"type": "http.disconnect"}
        stream.handed_over = stream.complete
        body = self._take(stream)
        self._flush_soon()
        return {"type": "http.request", "body": body, "more_body": not stream.complete}

    async def _asgi_send(self, stream: _Stream, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            self._answer(stream, message["status"], [each for each in headers if each[0] not in _OF_HTTP_1])
            if (b"connection", b"close") in headers:
                self._say_goodbye()
            return
        body = b"" if stream.method == b"HEAD" else message.get("body", b"")
        self._send(stream, body, last=not message.get("more_body", False))
        await stream.room.wait()
