"""Many requests at once in one thread, over connections that stand already.

    send --> request leaves --> answer arrives --> ended(Response)
                  |                   |
                  +-------------------+--> ended(Interrupted): time is up, connection ended, no HTTP, `break_off`

A thread for each request costs more than the request: to be woken, to sleep, to be woken by the answer, and each time
to wait for the interpreter. Here many answers come with one waking. What may take its time before anything is sent (a
new connection, credentials) is not for this: `Exchange` in api.py does it in a thread.

A server that answers without end, or has many bytes for one request, takes no more than one turn of some pieces at a
time from the others, and its deadline comes.

Promises: `ended` is called exactly once for each request that was sent, in the thread that polls, and may send the
next; whatever it is told, the request has left this machine or may have; nothing is sent twice.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

from extender.kube.client.answer import Answer, AnswerError
from extender.kube.client.api import ApiServer, Interrupted, Request, Response, Unreachable
from extender.kube.client.bounds import Bound
from extender.kube.client.transport import PIECE, Connection

Ended = Callable[[Response | Interrupted], None]

#: Pieces that are read of one answer before others have their turn.
_TURN = 16
#: What a connection may fail with that is used without waiting, other than that it would have to.
_FAILURES = (OSError, ValueError, AnswerError)
_NOT_YET = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Wire:
    """One request on its way, and what has come of its answer."""

    def __init__(self, connection: Connection, request: Request, encoded: bytes, deadline: float, ended: Ended) -> None:
        self.connection = connection
        self.socket = connection.unblocked()
        self.request = request
        self.unsent = encoded
        self.deadline = deadline
        self.ended = ended
        self.answer = Answer()
        #: There may be more to read than what the socket shows.
        self.has_more = False

    def write(self) -> None:
        """Sends what it can."""
        with suppress(*_NOT_YET):
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def read(self) -> None:
        """Takes what is there, for one turn. Raises one of _FAILURES if it cannot become an answer any more."""
        self.has_more = False
        with suppress(*_NOT_YET):
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
        """The connection may be used for another request."""
        return self.answer.reusable and not self.unsent


class HttpMultiplexer:
    """All of one server's; `wake` may be called from any thread, all else from the one that polls."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._wires: set[_Wire] = set()
        self._unfinished: set[_Wire] = set()
        #: Set it, look once more for what is new, and poll: whoever comes with something after that wakes it.
        self.sleeps = False

    @property
    def busy(self) -> bool:
        return bool(self._wires)

    def send(
        self,
        connection: Connection,
        request: Request,
        timeout: float,
        ended: Ended,
        *,
        may_send: Callable[[], bool],
    ) -> None:
        """`may_send` is asked right before the first byte leaves. The connection is ours, whatever comes of it.

        Raises Unreachable or ValueError before anything has left; then `ended` is not called.
        """
        try:
            wire = _Wire(connection, request, self._api.encoded(request), time.monotonic() + timeout, ended)
            self._ask_leave(may_send)
        except BaseException:
            connection.close()
            raise
        self._wires.add(wire)
        self._selector.register(wire.socket, selectors.EVENT_READ, wire)
        self._step(wire, wire.write)
        if wire in self._wires and wire.unsent:
            self._selector.modify(wire.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, wire)

    def _ask_leave(self, may_send: Callable[[], bool]) -> None:
        if not may_send():
            raise Unreachable(self._said("not permitted any more, nothing was sent"))

    def poll(self, timeout: float | None) -> None:
        """Waits for answers, for a time to be up or for `wake`, at most `timeout` seconds; tells all that ended."""
        unfinished = self._unfinished
        for key, events in self._selector.select(self._patience(timeout)):
            wire = key.data
            if wire is None:
                with suppress(*_NOT_YET):
                    self._woken.recv(64)
                continue
            if events & selectors.EVENT_WRITE and wire in self._wires:  # whoever was told before may have ended it
                self._step(wire, wire.write)
                if wire in self._wires and not wire.unsent:
                    self._selector.modify(wire.socket, selectors.EVENT_READ, wire)
            if events & selectors.EVENT_READ and wire in self._wires:
                unfinished.discard(wire)
                self._step(wire, wire.read)
        for wire in unfinished:  # what TLS has taken off the socket already does not show there
            if wire in self._wires:
                self._step(wire, wire.read)
        self._unfinished = {wire for wire in self._wires if wire.has_more}
        self.sleeps = False
        self._end_late()

    def wake(self) -> None:
        """Ends the waiting of `poll`, if it waits."""
        if self.sleeps:
            self.sleeps = False
            with suppress(OSError):  # full: it is being woken; closed: nothing is sent any more
                self._waker.send(b"!")

    def break_off(self) -> None:
        """Ends everything that is under way."""
        for wire in list(self._wires):
            self._fail(wire, Interrupted(self._said("broken off")))

    def close(self) -> None:
        """After the last poll."""
        self.break_off()
        self.sleeps = False
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _patience(self, timeout: float | None) -> float | None:
        if not self._wires:
            return timeout
        if self._unfinished:
            return 0.0
        left = max(0.0, min(wire.deadline for wire in self._wires) - time.monotonic())
        return left if timeout is None else min(left, timeout)

    def _end_late(self) -> None:
        now = time.monotonic()
        for wire in [wire for wire in self._wires if wire.deadline <= now]:
            begun = wire.answer.begun
            text = f"no {'whole answer' if begun else 'answer'} in time"
            self._fail(wire, self._interrupted(wire, text, bound=Bound.TIME if begun else None, timed_out=True))

    def _step(self, wire: _Wire, step: Callable[[], None]) -> None:
        try:
            step()
        except _FAILURES as error:
            bound = error.bound if isinstance(error, AnswerError) else None
            self._fail(wire, self._interrupted(wire, str(error) or type(error).__name__, bound=bound))
            return
        answer = wire.answer
        if answer.complete:
            self._forget(wire)
            if wire.reusable:
                self._api.keep(wire.connection)
            else:
                wire.connection.close()
            response = Response(answer.status, bytes(answer.body), answer.headers)
            answer.close()
            wire.ended(response)

    def _interrupted(self, wire: _Wire, text: str, *, bound: Bound | None, timed_out: bool = False) -> Interrupted:
        text = self._said(text)
        if bound:
            self._api.refusals.count(bound, f"{wire.request.method} {wire.request.path}: {text}")
        return Interrupted(text, timed_out=timed_out, bound=bound)

    def _fail(self, wire: _Wire, error: Interrupted) -> None:
        self._forget(wire)
        wire.answer.close()
        wire.connection.abort()
        wire.ended(error)

    def _forget(self, wire: _Wire) -> None:
        self._wires.discard(wire)
        self._selector.unregister(wire.socket)

    def _said(self, text: str) -> str:
        return f"{self._api.endpoint.url}: {text}"
