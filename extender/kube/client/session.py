"""What all exchanges with one API server share: credentials, connections that are kept and reused, counted refusals.

Any number of threads may use a session, one exchange on each of its connections.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from extender.core.requests import Request
from extender.kube.client.answer import AnswerError
from extender.kube.client.bounds import Refusals
from extender.kube.client.transport import Connection, Endpoint, no_authorization

#: Seconds for which an idle connection is reused. Go servers and load balancers wait longer before they close one.
_MAX_IDLE = 45.0
#: The most connections that are ever in use at once: opening one for each request costs more than all else.
_MAX_IDLE_CONNECTIONS = 32
_FAILURES = (OSError, AnswerError)
_NO_TARGET = re.compile(r"[\x00-\x20\x7f]")


class ApiError(Exception):
    """No response from the API server."""


class Unreachable(ApiError):  # noqa: N818  a finding, not a fault of ours
    """Nothing was sent: connection refused, name not found, TLS failed, or no credentials."""


class Session:
    """The session with the API server at `endpoint`. `timeout`: seconds that a call may take, unless it says otherwise.

    `agent` is the User-Agent: our name in the server's audit log. `refusals` counts responses that broke a bound.
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
        self.refusals = Refusals()

    @property
    def client_certificate(self) -> Path | None:
        """The file of the client certificate, if one is used."""
        return self.endpoint.tls.client_certificate if self.endpoint.tls else None

    def target(self, request: Request) -> str:
        """The target in the request line."""
        query = f"?{urlencode(request.query)}" if request.query else ""
        return self.endpoint.target(request.path + query)

    def close(self) -> None:
        """Close idle connections; those in use are closed when their exchange ends. No call can start any more."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def headers(self) -> dict[str, str]:
        """The headers that every request carries. Raises Unreachable if the credentials cannot be got."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": self._agent}
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
        """Whether `headers` returns without asking a file or program."""
        return self.endpoint.authorization is no_authorization or self.endpoint.at_hand()

    def encoded(self, request: Request) -> bytes:
        """The whole request as it is sent. Raises Unreachable as `headers` does, ValueError if the request is
        invalid."""
        headers = {"Host": self.endpoint.authority, **self.headers()}
        body = request.body or b""
        if request.body is not None:
            headers |= {"Content-Type": request.content_type, "Content-Length": str(len(body))}
        target = self.target(request)
        if _NO_TARGET.search(target):
            raise ValueError(f"{self.endpoint.url}: {target[:100]!r} cannot be asked for")
        lines = [f"{request.method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        head = "\r\n".join(lines)
        if head.count("\n") != len(headers) or head.count("\r") != len(headers):
            raise ValueError(f"{self.endpoint.url}: a header has more than one line")
        return head.encode("latin-1") + b"\r\n\r\n" + body

    def idle_connection(self) -> Connection | None:
        """An idle connection that can be reused, if there is one. Raises Unreachable if closed."""
        while (kept := self._pop_idle()) is not None:
            since, connection = kept
            if self._clock() - since < _MAX_IDLE and not connection.stale:
                return connection
            connection.close()
        return None

    def connection(self, timeout: float) -> tuple[Connection, bool]:
        """A connection to use, and whether it was used before. Raises Unreachable."""
        if (idle := self.idle_connection()) is not None:
            return idle, True
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
        """Take back a connection whose response was read to its end."""
        with self._lock:
            if not self._closed and len(self._idle) < _MAX_IDLE_CONNECTIONS:
                self._idle.append((self._clock(), connection))
                return
        connection.close()
