"""Requests to the API server, with the one distinction that writes live by: did it leave this machine or not?

    exchange --connect--> sent --headers--> answered --body--> finished
        |                   |                  |
    Unreachable         Interrupted        Interrupted

* Any HTTP status is an answer, never an exception.
* `Unreachable`: nothing was sent; the API server has not changed.
* `Interrupted`: it was sent, or may have been, and the answer never came in full; a write may have been applied.
* Writes are never repeated here. A GET is repeated once, if a kept-alive connection broke before any answer.

Connections are kept and reused; they may be used by any number of threads, one exchange on each.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from urllib.parse import urlencode

import msgspec

from extender.kube.chunked import Chunked, ChunkError
from extender.kube.transport import Connection, Endpoint, no_authorization

#: Seconds a connection may lie idle before it is no longer trusted. Go servers and load balancers wait longer.
_MAX_IDLE = 45.0
#: As many as are ever under way: one that is closed after each use costs more than all else.
_MAX_IDLE_CONNECTIONS = 32
#: Of a streamed body, at once.
_PIECE = 64 * 1024
_FAILURES = (OSError, http.client.HTTPException)


def _always() -> bool:
    return True


class ApiError(Exception):
    """No answer from the API server."""


class Unreachable(ApiError):  # noqa: N818  a finding, not a fault of ours
    """Nothing was sent: connection refused, name not found, TLS failed, credentials could not be got."""


class Interrupted(ApiError):  # noqa: N818  a finding, not a fault of ours
    """It was sent, or may have been, but no (whole) answer came. `timed_out`: the peer was silent for too long."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Cause(msgspec.Struct, gc=False):
    """One of `details.causes` of a Status."""

    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct, gc=False):
    causes: list[Cause] | None = None


class _Status(msgspec.Struct, gc=False):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the API server."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the API server. Header names are in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """Seconds of the Retry-After header; None if there is none, or if it is not a number of seconds."""
        try:
            return max(0.0, float(int(self.headers["retry-after"])))
        except (KeyError, ValueError, OverflowError):
            return None

    @property
    def message(self) -> str:
        """The `message` of the Status object in the body, else the beginning of the body, else the HTTP status."""
        status = self._status()
        if status is None:
            return self.body[:200].decode(errors="replace").strip() or f"HTTP {self.status}"
        return status.message or status.reason or f"HTTP {self.status}"

    @property
    def genuine(self) -> bool:
        """Whether the body is a Kubernetes object, so that no proxy on the way has made the answer."""
        status = self._status()
        return status is not None and bool(status.kind)

    @property
    def causes(self) -> list[Cause]:
        """The causes that the Status object in the body gives; none if there is no such object."""
        status = self._status()
        return (status.details.causes if status is not None and status.details is not None else None) or []

    def _status(self) -> _Status | None:
        try:
            return _status_decoder.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


_status_decoder = msgspec.json.Decoder(_Status)


class Exchange:
    """One request and its answer, as a context manager: entering sends it and waits for the status line.

    `interrupt` may be called by any thread at any time, also before entering; the exchange then ends in an ApiError.
    """

    def __init__(
        self,
        server: ApiServer,
        request: Request,
        *,
        timeout: float,
        may_send: Callable[[], bool],
    ) -> None:
        self._server = server
        self._request = request
        self._timeout = timeout
        self._may_send = may_send
        self._lock = threading.Lock()
        self._interrupted = False
        self._read_to_end = False
        self._connection: Connection | None = None
        self._answer: http.client.HTTPResponse | None = None

    def __enter__(self) -> Exchange:
        headers = self._server.headers()
        if self._request.body is not None:
            headers["Content-Type"] = self._request.content_type
        try:
            while not self._send(headers):
                pass
            if self.status == http.HTTPStatus.UNAUTHORIZED:
                self._server.endpoint.refused()
        except BaseException:
            self._finish(reusable=False, failed=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        answer = self._got()
        read_to_end = self._read_to_end or answer.isclosed() or answer.length == 0
        self._finish(reusable=error is None and read_to_end and not answer.will_close, failed=error is not None)

    def _finish(self, *, reusable: bool, failed: bool) -> None:
        with self._lock:  # from here on nobody can interrupt the connection: it may serve others next
            connection, self._connection = self._connection, None
        if self._answer is not None:
            self._answer.close()
        if connection is None:
            return
        if reusable and not self._interrupted:
            self._server.keep(connection)
        elif failed:
            connection.abort()
        else:
            connection.close()

    def _send(self, headers: dict[str, str]) -> bool:
        """False: a kept-alive connection turned out to be dead before a GET was answered; try the next."""
        connection, reused = self._server.connection(self._timeout)
        with self._lock:
            self._connection = connection
            if self._interrupted:
                raise Unreachable(f"{self._server.endpoint.url}: interrupted before anything was sent")
        connection.set_timeout(self._timeout)
        if not self._may_send():
            raise Unreachable(f"{self._server.endpoint.url}: not permitted any more, nothing was sent")
        request = self._request
        try:
            connection.request(request.method, self._server.target(request), request.body, headers)
            self._answer = connection.getresponse()
        except _FAILURES as error:
            if reused and request.method == "GET" and not isinstance(error, TimeoutError) and not self._interrupted:
                self._finish(reusable=False, failed=True)
                return False
            raise self._failure(error) from error
        return True

    @property
    def status(self) -> int:
        return self._got().status

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self._got().getheaders()}

    def read(self) -> bytes:
        """The whole body. Raises Interrupted."""
        try:
            return self._got().read()
        except _FAILURES as error:
            raise self._failure(error) from error

    def response(self) -> Response:
        """The whole answer. Raises Interrupted."""
        return Response(self.status, self.read(), self.headers)

    def __iter__(self) -> Iterator[bytes]:
        """The body in pieces, each of them what has arrived by then, none of them empty. Raises Interrupted."""
        answer = self._got()
        if not answer.chunked:
            while piece := self._next_piece(answer.read1):
                yield piece
            if answer.length or self._interrupted:
                raise self._ended()
            return
        chunked = Chunked()
        while not chunked.finished:
            piece = self._next_piece(answer.fp.read1)
            if not piece:
                raise self._ended()
            if body := self._taken_off(chunked, piece):
                yield body
        self._read_to_end = True

    def _next_piece(self, read: Callable[[int], bytes]) -> bytes:
        try:
            return read(_PIECE)
        except _FAILURES as error:
            raise self._failure(error) from error

    def _taken_off(self, chunked: Chunked, piece: bytes) -> bytes:
        try:
            return chunked.feed(piece)
        except ChunkError as error:
            raise self._failure(error) from error

    def _ended(self) -> Interrupted:
        return Interrupted(f"{self._server.endpoint.url}: connection ended within the answer")

    def interrupt(self) -> None:
        """End the exchange now, whatever it waits for."""
        with self._lock:
            self._interrupted = True
            if self._connection is not None:
                self._connection.shut()

    def _got(self) -> http.client.HTTPResponse:
        assert self._answer is not None, "an exchange has to be entered before it is used"
        return self._answer

    def _failure(self, error: Exception) -> Interrupted:
        timed_out = isinstance(error, TimeoutError)
        text = f"no answer within {self._timeout:g} s" if timed_out else (str(error) or type(error).__name__)
        return Interrupted(f"{self._server.endpoint.url}: {text}", timed_out=timed_out)


class ApiServer:
    """The API server at `endpoint`. `timeout`: seconds that it may be silent, unless a call says otherwise.

    `agent` is the User-Agent: who we are in its audit log.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float = 10.0,
        agent: str = "waggle",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self._agent = agent
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Connection]] = []
        self._closed = False

    @property
    def client_certificate(self) -> Path | None:
        """The file of the certificate that we show there, if we show one."""
        return self.endpoint.tls.client_certificate if self.endpoint.tls else None

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> Response:
        """One call; any HTTP status is a Response. Raises Unreachable or Interrupted."""
        asked = Request(method, path, query, body, content_type)
        with self.exchange(asked, timeout=timeout) as exchange:
            return exchange.response()

    def stream(self, path: str, *, query: Mapping[str, str] | None = None, timeout_read: float) -> Exchange:
        """A GET whose body is read piece by piece: `with api.stream(...) as s: s.status; for chunk in s: ...`."""
        return self.exchange(Request("GET", path, query), timeout=timeout_read)

    def exchange(
        self, request: Request, *, timeout: float | None = None, may_send: Callable[[], bool] = _always
    ) -> Exchange:
        """A call that is not made yet: it starts on entering, and any thread may interrupt it.

        `may_send` is asked when all is ready, credentials and connection, right before the first byte leaves; if it
        says no, nothing does.
        """
        return Exchange(self, request, timeout=self.timeout if timeout is None else timeout, may_send=may_send)

    def target(self, request: Request) -> str:
        """What stands in the request line."""
        query = f"?{urlencode(request.query)}" if request.query else ""
        return self.endpoint.target(request.path + query)

    def close(self) -> None:
        """Close what lies idle; connections in use are closed when their exchange ends. No call can start any more."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def headers(self) -> dict[str, str]:
        """The headers that every request carries. Raises Unreachable if the credentials cannot be got."""
        headers = {"Accept": "application/json", "User-Agent": self._agent}
        try:
            authorization = self.endpoint.authorization()
        except Exception as error:
            raise Unreachable(f"{self.endpoint.url}: credentials: {error}") from error
        if authorization:
            headers["Authorization"] = authorization
        if self.endpoint.proxy and not self.endpoint.tls:
            headers.update(self.endpoint.proxy.headers)
        return headers

    @property
    def at_hand(self) -> bool:
        """Whether `headers` has nobody to ask."""
        return self.endpoint.authorization is no_authorization or self.endpoint.at_hand()

    def encoded(self, request: Request) -> bytes:
        """The whole request as it is sent. Raises Unreachable as `headers` does, ValueError if it is none."""
        headers = {"Host": self.endpoint.authority, **self.headers()}
        body = request.body or b""
        if request.body is not None:
            headers |= {"Content-Type": request.content_type, "Content-Length": str(len(body))}
        lines = [f"{request.method} {self.target(request)} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        head = "\r\n".join(lines)
        if head.count("\n") != len(headers) or head.count("\r") != len(headers):
            raise ValueError(f"{self.endpoint.url}: a header has more than one line")
        return head.encode("latin-1") + b"\r\n\r\n" + body

    def standing(self) -> Connection | None:
        """A connection that was used before and can be again, if there is one. Raises Unreachable if closed."""
        while (kept := self._pop_idle()) is not None:
            since, connection = kept
            if self._clock() - since < _MAX_IDLE and not connection.stale:
                return connection
            connection.close()
        return None

    def connection(self, timeout: float) -> tuple[Connection, bool]:
        """A connection to use, and whether it was used before. Raises Unreachable."""
        if (standing := self.standing()) is not None:
            return standing, True
        try:
            return self.endpoint.open(timeout), False
        except (*_FAILURES, ValueError) as error:
            raise Unreachable(f"{self.endpoint.url}: {error or type(error).__name__}") from error

    def _pop_idle(self) -> tuple[float, Connection] | None:
        with self._lock:
            if self._closed:
                raise Unreachable(f"{self.endpoint.url}: the client is closed")
            return self._idle.pop() if self._idle else None

    def keep(self, connection: Connection) -> None:
        """Take back a connection whose answer was read to its end."""
        with self._lock:
            if not self._closed and len(self._idle) < _MAX_IDLE_CONNECTIONS:
                self._idle.append((self._clock(), connection))
                return
        connection.close()
