"""Sends many requests at once from one thread, over connections that are open already.

    send --> request leaves --> answer arrives --> ended(Response)
                  |                   |
                  +-------------------+--> ended(Interrupted): time is up, connection ended, no HTTP, `break_off`

A thread for each request costs more than the request: it has to be woken, to sleep, and to be woken again by the
response, and each time it waits for the GIL. Here one wake-up handles many responses. Whatever may block before
anything is sent (a new connection, fetching credentials) is not done here: `Exchange` in api.py does it in a thread.

A server that never ends a response, or sends many bytes for one request, takes only one turn of a few pieces at a time
from the other requests, until its deadline comes.

Promises: `ended` is called exactly once for each request that was sent, on the thread that polls, and may send the next
request. Whatever the result, the request has left this machine or may have left it. Nothing is sent twice.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf

from extender.kube.client.answer import Answer, AnswerError
from extender.kube.client.api import ApiServer, Interrupted, Request, Response, Unreachable
from extender.kube.client.bounds import Bound
from extender.kube.client.transport import NOT_YET, PIECE, Connection

Ended = Callable[[Response | Interrupted], None]

#: Pieces of one response that are read before other responses have their turn.
_TURN = 16
#: Errors of a connection that is used without blocking, other than that it would block.
_FAILURES = (OSError, ValueError, AnswerError)


class _Exchange:
    """One request in flight, and the part of its response that has arrived."""

    def __init__(self, connection: Connection, request: Request, encoded: bytes, deadline: float, ended: Ended) -> None:
        self.connection = connection
        self.socket = connection.unblocked()
        self.request = request
        self.unsent = encoded
        self.deadline = deadline
        self.ended = ended
        self.answer = Answer()
        #: More may be readable than the socket shows (TLS buffers it).
        self.has_more = False

    def write(self) -> None:
        """Send as much as the socket takes."""
        with suppress(*NOT_YET):
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def read(self) -> None:
        """Read what has arrived, for one turn. Raises one of _FAILURES if no valid response can come of it any more."""
        self.has_more = False
        with suppress(*NOT_YET):
            for _ in range(_TURN):
                piece = self.socket.recv(PIECE)
                if not piece:
                    self.answer.end()
                    return
                self.answer.collect(piece, self.request.most)
                if self.answer.complete:
                    return
            self.has_more = True

    @property
    def reusable(self) -> bool:
        """Whether the connection may be used for another request."""
        return self.answer.reusable and not self.unsent


class HttpMultiplexer:
    """All requests to one server. `wake` may be called from any thread, everything else only from the thread that
    polls."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._exchanges: set[_Exchange] = set()
        self._unfinished: set[_Exchange] = set()
        #: Whether the polling thread is about to sleep. Set it, look once more for new work, and poll: a thread that
        #: brings work after that wakes it.
        self.sleeps = False

    @property
    def busy(self) -> bool:
        return bool(self._exchanges)

    def send(
        self,
        connection: Connection,
        request: Request,
        timeout: float,
        ended: Ended,
        *,
        may_send: Callable[[], bool],
    ) -> None:
        """Send a request. The connection then belongs to the multiplexer, whatever happens.

        `may_send` is called right before the first byte leaves. Raises Unreachable or ValueError before anything has
        left; then `ended` is not called.
        """
        try:
            exchange = _Exchange(connection, request, self._api.encoded(request), time.monotonic() + timeout, ended)
            self._ask_leave(may_send)
        except BaseException:
            connection.close()
            raise
        self._exchanges.add(exchange)
        self._selector.register(exchange.socket, selectors.EVENT_READ, exchange)
        self._step(exchange, exchange.write)
        if exchange in self._exchanges and exchange.unsent:
            self._selector.modify(exchange.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, exchange)

    def _ask_leave(self, may_send: Callable[[], bool]) -> None:
        if not may_send():
            raise Unreachable(self._message("not permitted any more, nothing was sent"))

    def fileno(self) -> int:
        """A descriptor that is readable when `poll` has something to do, but for deadlines (epoll, kqueue)."""
        return self._selector.fileno()

    def poll(self, timeout: float | None, until: float = inf) -> None:
        """Wait at most `timeout` seconds for responses, for a deadline or for `wake`; call `ended` for every request
        that ended. After the time `until` no further response is read."""
        unfinished = self._unfinished
        for key, events in self._selector.select(self.patience(timeout)):
            if until < inf and time.monotonic() > until:
                break
            exchange = key.data
            if exchange is None:
                with suppress(*NOT_YET):
                    self._woken.recv(64)
                continue
            if events & selectors.EVENT_WRITE and exchange in self._exchanges:  # an earlier callback may have ended it
                self._step(exchange, exchange.write)
                if exchange in self._exchanges and not exchange.unsent:
                    self._selector.modify(exchange.socket, selectors.EVENT_READ, exchange)
            if events & selectors.EVENT_READ and exchange in self._exchanges:
                unfinished.discard(exchange)
                self._step(exchange, exchange.read)
        for exchange in unfinished:  # what TLS has already taken off the socket does not show there
            if exchange in self._exchanges:
                self._step(exchange, exchange.read)
        self._unfinished = {exchange for exchange in self._exchanges if exchange.has_more}
        self.sleeps = False
        self._end_late()

    def wake(self) -> None:
        """End the wait of `poll`, if it is waiting."""
        if self.sleeps:
            self.sleeps = False
            with suppress(OSError):  # full: it is being woken; closed: nothing is sent any more
                self._waker.send(b"!")

    def break_off(self) -> None:
        """Abort every request in flight."""
        for exchange in list(self._exchanges):
            self._fail(exchange, Interrupted(self._message("broken off")))

    def close(self) -> None:
        """Free the resources, after the last poll."""
        self.break_off()
        self.sleeps = False
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def patience(self, timeout: float | None) -> float | None:
        """Seconds that `poll` may wait for responses, at most `timeout`; None: for ever."""
        if not self._exchanges:
            return timeout
        if self._unfinished:
            return 0.0
        left = max(0.0, min(exchange.deadline for exchange in self._exchanges) - time.monotonic())
        return left if timeout is None else min(left, timeout)

    def _end_late(self) -> None:
        now = time.monotonic()
        for exchange in [exchange for exchange in self._exchanges if exchange.deadline <= now]:
            begun = exchange.answer.begun
            text = f"no {'whole answer' if begun else 'answer'} in time"
            self._fail(exchange, self._interrupted(exchange, text, bound=Bound.TIME if begun else None, timed_out=True))

    def _step(self, exchange: _Exchange, step: Callable[[], None]) -> None:
        """Read or write on one connection; end the request if its response is complete or the connection failed."""
        try:
            step()
        except _FAILURES as error:
            bound = error.bound if isinstance(error, AnswerError) else None
            self._fail(exchange, self._interrupted(exchange, str(error) or type(error).__name__, bound=bound))
            return
        answer = exchange.answer
        if answer.complete:
            self._forget(exchange)
            if exchange.reusable:
                self._api.keep(exchange.connection)
            else:
                exchange.connection.close()
            response = Response(answer.status, bytes(answer.body), answer.headers)
            answer.close()
            exchange.ended(response)

    def _interrupted(
        self, exchange: _Exchange, text: str, *, bound: Bound | None, timed_out: bool = False
    ) -> Interrupted:
        text = self._message(text)
        if bound:
            self._api.refusals.count(bound, f"{exchange.request.method} {exchange.request.path}: {text}")
        return Interrupted(text, timed_out=timed_out, bound=bound)

    def _fail(self, exchange: _Exchange, error: Interrupted) -> None:
        self._forget(exchange)
        exchange.answer.close()
        exchange.connection.abort()
        exchange.ended(error)

    def _forget(self, exchange: _Exchange) -> None:
        self._exchanges.discard(exchange)
        self._selector.unregister(exchange.socket)

    def _message(self, text: str) -> str:
        return f"{self._api.endpoint.url}: {text}"
