"""One request to the API server and its response. Every failure tells whether the request may have left this machine,
as writes depend on it.

    exchange --connect--> sent --headers--> answered --body--> finished
        |                   |                  |
    Unreachable         Interrupted        Interrupted

* Any HTTP status is a response, never an exception.
* `Unreachable`: nothing was sent; the API server has not changed.
* `Interrupted`: the request was sent, or may have been, and no complete response came; a write may have been applied.
* Writes are never repeated here. A GET is repeated once, if a kept-alive connection broke before any response.

An exchange has one deadline, from the moment when credentials are available to the end of the response. Only the reader
of a stream extends it (`extend`). A response beyond a bound of bounds.py ends the exchange, too.
"""

from __future__ import annotations

import http
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

from extender.core.requests import Request
from extender.kube.client import bounds
from extender.kube.client.answer import Answer, AnswerError
from extender.kube.client.bounds import Bound
from extender.kube.client.messages import Response
from extender.kube.client.session import ApiError, Session, Unreachable
from extender.kube.client.transport import Connection

_FAILURES = (OSError, AnswerError)


class Interrupted(ApiError):  # noqa: N818  a finding, not a fault of ours
    """The request was sent, or may have been, but no (complete) response came.

    `timed_out`: it did not come in time. `bound`: it came, and broke a bound.
    """

    def __init__(self, message: str, *, timed_out: bool = False, bound: Bound | None = None) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.bound = bound


class Exchange:
    """One request and its response, as a context manager: entering sends the request and waits for the status line.

    `timeout` is in seconds from entering to the end of the response. `interrupt` may be called by any thread at any
    time, also before entering; the exchange then ends in an ApiError.
    """

    def __init__(
        self,
        session: Session,
        request: Request,
        *,
        timeout: float,
        may_send: Callable[[], bool],
    ) -> None:
        self._session = session
        self._request = request
        self._timeout = timeout
        self._deadline = 0.0
        self._may_send = may_send
        self._lock = threading.Lock()
        self._interrupted = False
        self._connection: Connection | None = None
        self._answer: Answer | None = None

    def __enter__(self) -> Exchange:
        try:
            encoded = self._session.encoded(self._request)
        except ValueError as error:
            raise Unreachable(str(error)) from error
        self.extend(self._timeout)
        try:
            while not self._send(encoded):
                pass
            if self.status == http.HTTPStatus.UNAUTHORIZED:
                self._session.endpoint.refused()
        except BaseException:
            self._finish(failed=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish(failed=error is not None)

    def _finish(self, *, failed: bool) -> None:
        with self._lock:  # from here on no thread can interrupt the connection: it may serve others next
            connection, self._connection = self._connection, None
        if self._answer is not None:
            self._answer.close()
        if connection is None:
            return
        if failed:
            connection.abort()
        elif self._answer is not None and self._answer.reusable and not self._interrupted:
            self._session.keep(connection)
        else:
            connection.close()

    def _send(self, encoded: bytes) -> bool:
        """Send the request. Returns False if a kept-alive connection was dead before a GET was answered; try the next
        one."""
        connection, reused = self._session.connection(self._deadline - time.monotonic())
        with self._lock:
            self._connection = connection
            if self._interrupted:
                raise Unreachable(f"{self._session.endpoint.url}: interrupted before anything was sent")
        if not self._may_send():
            raise Unreachable(f"{self._session.endpoint.url}: not permitted any more, nothing was sent")
        self._answer = answer = Answer()
        try:
            connection.send(encoded, self._deadline)
            while not answer.status:
                self._take(answer)
        except _FAILURES as error:
            died = reused and self._request.method == "GET" and not answer.begun
            if died and not isinstance(error, TimeoutError) and not self._interrupted:
                self._finish(failed=True)
                return False
            raise self._failure(error) from error
        return True

    def extend(self, seconds: float) -> None:
        """Set the deadline for the rest of the response to `seconds` from now."""
        self._deadline = time.monotonic() + seconds

    @property
    def status(self) -> int:
        return self._got().status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._got().headers

    def read(self) -> bytes:
        """Read the whole body. Raises Interrupted."""
        answer = self._got()
        try:
            answer.collect(b"", self._request.most)
            while not answer.complete:
                self._take(answer)
        except _FAILURES as error:
            raise self._failure(error) from error
        return bytes(answer.body)

    def response(self) -> Response:
        """Read the whole response. Raises Interrupted."""
        return Response(self.status, self.read(), self.headers)

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the body: each piece is what has arrived by then, none is empty. Raises Interrupted.

        The body may have any size: the reader bounds what it keeps, and the time by `extend`.
        """
        answer = self._got()
        if kept := _taken(answer):
            yield kept
        while not answer.complete:
            try:
                body = self._received(answer)
            except TimeoutError as error:
                raise self._late(None) from error
            except _FAILURES as error:
                raise self._failure(error) from error
            if body:
                yield body

    def arrived(self) -> bytes:
        """Read what has arrived of the body, without waiting. b"" if that is nothing, or the end (`complete`).

        Raises Interrupted, but not for a missed deadline: who waits for data looks at `left`.
        """
        answer = self._got()
        if kept := _taken(answer):
            return kept
        try:
            piece = self._open().arrived()
            if piece is None:
                return b""
            return answer.feed(piece) if self._not_over(answer, piece) else b""
        except _FAILURES as error:
            raise self._failure(error) from error

    @property
    def complete(self) -> bool:
        return self._got().complete

    @property
    def has_more(self) -> bool:
        """Whether data has arrived that the socket does not show."""
        connection = self._connection
        return connection is not None and connection.has_more

    def left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    def fileno(self) -> int:
        """The socket's descriptor. Raises Interrupted."""
        try:
            return self._open().fileno()
        except AnswerError as error:
            raise self._failure(error) from error

    def _take(self, answer: Answer) -> None:
        """Read the next piece of the response, and keep it."""
        if piece := self._piece(answer):
            answer.collect(piece, self._request.most)

    def _received(self, answer: Answer) -> bytes:
        """Read the next piece of the body, which is not kept."""
        piece = self._piece(answer)
        return answer.feed(piece) if piece else b""

    def _piece(self, answer: Answer) -> bytes:
        """Read what has arrived; b"" at the end of a response that ends with its connection."""
        return self._not_over(answer, self._open().receive(self._deadline))

    def _open(self) -> Connection:
        connection = self._connection
        if connection is None or self._interrupted:
            raise AnswerError("interrupted")
        return connection

    def _not_over(self, answer: Answer, piece: bytes) -> bytes:
        """The piece; an empty one is the end of a response that ends with its connection."""
        if not piece:
            if self._interrupted:
                raise AnswerError("interrupted")
            answer.end()
        return piece

    def interrupt(self) -> None:
        """End the exchange now, also while it waits."""
        with self._lock:
            self._interrupted = True
            if self._connection is not None:
                self._connection.shut()

    def _got(self) -> Answer:
        assert self._answer is not None, "an exchange has to be entered before it is used"
        return self._answer

    def _failure(self, error: Exception) -> Interrupted:
        if isinstance(error, TimeoutError):
            return self._late(Bound.TIME if self._answer is not None and self._answer.begun else None)
        bound = error.bound if isinstance(error, AnswerError) else None
        return self._ended(str(error) or type(error).__name__, bound)

    def _late(self, bound: Bound | None) -> Interrupted:
        """The error for a missed deadline. `bound` is set if the response had begun, but not for a silent stream."""
        text = f"no {'whole answer' if bound else 'answer'} within {self._timeout:g} s"
        return self._ended(text, bound, timed_out=True)

    def _ended(self, text: str, bound: Bound | None, *, timed_out: bool = False) -> Interrupted:
        text = f"{self._session.endpoint.url}: {text}"
        if bound:
            self._session.refusals.count(bound, f"{self._request.method} {bounds.cut(self._request.path)}: {text}")
        return Interrupted(text, timed_out=timed_out, bound=bound)


def _taken(answer: Answer) -> bytes:
    """The part of the body that has arrived with the head, once."""
    kept, answer.body = bytes(answer.body), bytearray()
    return kept
