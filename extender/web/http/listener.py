"""Accepts connections: a few in a turn, a bounded number in all, and without any objects before the first byte.

    socket --accept--> room? (connections.py) --> waits for a byte (TLS: a whole record) --> queue --> protocol.py
                                                                                          TLS |         ^  http2.py
                                                                                              v         |     ^
                                                                                          handshake, ALPN-----+

The event loop's own `create_server` makes protocol and TLS objects for each connection at once, keeps them for as long
as the peer likes, accepts everything that waits in one turn, and closes the listening socket when descriptors run out.
Promises: until its first TLS record is complete, a connection is a socket and nothing else, and it ends after
`BEGIN_SECONDS`; so does a TLS handshake that is not finished by then. A turn of the event loop accepts and starts so
few connections that calls in progress hardly notice. If descriptors or room are lacking, the listener waits and never
ends. Addresses take turns, and of those of one address the newest begins.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog

from extender.web.http.callers import (
    LARGEST_RECORD,
    Caller,
    Serve,
    Tls,
    Unserved,
    acknowledge,
    bytes_until_whole,
    peer_name,
)
from extender.web.http.connections import Connection, Connections, address_of

_log = structlog.get_logger(__name__)

#: Seconds from the accept to the first byte, and to the end of the TLS handshake.
BEGIN_SECONDS: Final = 10.0
#: Seconds after a change of certificates in which a client may finish its calls if the new ones do not admit it.
WITHDRAWN_SECONDS: Final = 10.0
#: Seconds for which connections are accepted in one turn.
_TURN_SECONDS: Final = 0.001
#: Connections started in one turn: a handshake takes half a millisecond now, and one more when the peer has answered.
_STARTS_OF_TLS: Final = 2
_STARTS: Final = 8
#: Handshakes under way, whose next steps may come at the same moment.
_MOST_UNDER_WAY: Final = 48
#: Seconds after which a handshake under way may be ended for another that waits.
_PATIENCE: Final = 0.05
#: Seconds until the next check for room or for a file descriptor.
_PAUSE: Final = 0.05
#: Seconds between two log lines with the same text.
_LOG_SECONDS: Final = 60.0
_SWEEP_SECONDS: Final = 1.0
#: Temporary errors of `accept`: no descriptors, or no memory.
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """One listening socket. Takes the place of an `asyncio.Server`: `start`, `close`, `wait_closed`."""

    def __init__(self, listening: socket.socket, connections: Connections, serve: Serve, tls: Tls | None) -> None:
        self.connections = connections
        self._socket = listening
        self._serve = serve
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._queue: dict[Connection, socket.socket] = {}
        self._under_way: dict[Connection, float] = {}
        self._turn: asyncio.Handle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        #: The event loop keeps no reference to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged_at: dict[str, float] = {}
        self._logged_evictions = 0

    def start(self) -> None:
        """Begin to accept connections."""
        self._socket.setblocking(False)
        # Accepted sockets inherit it. The event loop sets it only on sockets that it has made itself.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Stop accepting. Open connections stay."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket.fileno())
            self.connections.abort_unfinished()

    async def wait_closed(self) -> None:
        """Return at once: uvicorn waits for the connections itself."""

    # -- accepting ----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        """Accept connections for the time of a turn; evict others if there is no room."""
        until = time.monotonic() + _TURN_SECONDS
        while time.monotonic() < until:
            leaving = self.connections.evictable(self._loop.time()) if self.connections.is_full() else None
            if leaving == []:
                self._warn("no room for another connection: all of them wait for their answers")
                self._pause()
                return
            try:
                accepted, name = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                self._cannot_accept(error)
                return
            self.connections.evict(leaving or ())
            self._admit(accepted, name)
        self._log_evictions()

    def _cannot_accept(self, error: OSError) -> None:
        if error.errno in _SHORTAGES:
            self.connections.evict(self.connections.evictable(self._loop.time()))
        self._warn("connections cannot be accepted", error=error.strerror or str(error))
        self._pause()

    def _pause(self) -> None:
        """Stop accepting for a moment. New connections stay in the kernel's queue."""
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _admit(self, accepted: socket.socket, name: tuple[object, ...]) -> None:
        accepted.setblocking(False)
        connection = Connection(address_of(name), self._loop.time())
        connection.give_up = partial(self._give_up_waiting, connection, accepted)
        self.connections.add(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        self._look(connection, accepted, 0)

    def _look(self, connection: Connection, accepted: socket.socket, expected: int) -> None:
        """Check whether the first message is complete. `expected`: bytes that woke this check, 0 if none did."""
        try:
            seen = accepted.recv(1 if self._tls is None else LARGEST_RECORD, socket.MSG_PEEK)
        except BlockingIOError:
            self._wait_for(1, connection, accepted)
            return
        except OSError:
            seen = b""
        missing = 0 if self._tls is None else bytes_until_whole(seen)
        if not seen or (missing and len(seen) < expected):
            self._forget(connection, accepted)  # the peer has gone, or sends no more
        elif missing:
            self._wait_for(len(seen) + missing, connection, accepted)
        else:
            self._enqueue(connection, accepted)

    def _wait_for(self, size: int, connection: Connection, accepted: socket.socket) -> None:
        """Wait until so many bytes have arrived. A byte now and then costs nothing: the kernel counts."""
        if size > 1:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        self._loop.add_reader(accepted.fileno(), self._readable, connection, accepted, size)

    def _readable(self, connection: Connection, accepted: socket.socket, expected: int) -> None:
        """The bytes, or the end of the connection, have arrived."""
        self._loop.remove_reader(accepted.fileno())
        self._look(connection, accepted, expected)

    def _enqueue(self, connection: Connection, accepted: socket.socket) -> None:
        if self._tls is not None:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.connections.began(connection)
        self._queue[connection] = accepted
        self._turn_soon()

    def _forget(self, connection: Connection, accepted: socket.socket) -> None:
        """The peer has gone: drop the connection."""
        self.connections.remove(connection)
        accepted.close()

    def _give_up_waiting(self, connection: Connection, accepted: socket.socket) -> None:
        if self._queue.pop(connection, None) is None:
            self._loop.remove_reader(accepted.fileno())
        accepted.close()

    def _sweep(self) -> None:
        """End connections whose time to begin is over; handshakes under way end by themselves."""
        self._sweeper = None
        overdue = self.connections.overdue(self._loop.time() - BEGIN_SECONDS)
        waiting = [connection for connection in overdue if connection not in self._under_way]
        for connection in waiting:
            if self._tls is not None:
                self._tls.refused(
                    "timeout", f"no whole message was sent within {BEGIN_SECONDS:g} s", connection.address
                )
        self.connections.abort_all(waiting)
        if self.connections.unfinished:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    # -- starting -----------------------------------------------------------------------------------------------------

    def _turn_soon(self) -> None:
        if self._turn is None and self._queue:
            self._turn = self._loop.call_soon(self._start_some)

    def _start_some(self) -> None:
        self._turn = None
        for _ in range(min(_STARTS if self._tls is None else _STARTS_OF_TLS, len(self._queue))):
            if len(self._under_way) >= _MOST_UNDER_WAY and not self._end_a_slow_one():
                self._turn = self._loop.call_later(_PATIENCE / 4, self._start_some)
                return
            self._start_one()
        self._turn_soon()

    def _end_a_slow_one(self) -> bool:
        connection, since = next(iter(self._under_way.items()))
        if self._loop.time() - since < _PATIENCE:
            return False
        self.connections.evict([connection])
        self._under_way.pop(connection, None)
        return True

    def _start_one(self) -> None:
        """Start the newest connection of the address that has the fewest under way.

        If connections arrive faster than they can be started, most end unserved. In the order of arrival all of them
        would: each would wait as long as there is room to wait, and be closed for a newer one just before its turn.
        """
        connection = next(reversed(self._queue))
        if self._under_way and len(self._queue) > 1:
            theirs = Counter(each.address for each in self._under_way)
            connection = min(reversed(self._queue), key=lambda each: theirs[each.address])
        accepted = self._queue.pop(connection)
        self.connections.start(connection)
        self._under_way[connection] = self._loop.time()
        if self._tls is None:
            connection.give_up = None  # before it is handed over, `given_up` is checked
            task = self._start_task(self._serve_plain(connection, accepted))
        else:
            task = self._start_task(self._shake_hands(connection, accepted, self._tls, self._tls.current))
            # Once the event loop has taken the socket over, a cancelled task waits until the loop has closed it.
            task.add_done_callback(lambda ended: accepted.close() if ended.cancelled() else None)
            connection.give_up = task.cancel
        task.add_done_callback(lambda _task: self._started(connection))

    def _started(self, connection: Connection) -> None:
        self._under_way.pop(connection, None)
        if connection.served is None:
            self.connections.remove(connection)
        self._turn_soon()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a connection failed", exc_info=error)

    async def _serve_plain(self, connection: Connection, accepted: socket.socket) -> None:
        if connection.given_up:
            accepted.close()
            return

        def made(transport: asyncio.Transport) -> None:
            self._hand_over(connection, Caller(peer_name(transport)), transport)

        with suppress(OSError):
            await self._loop.connect_accepted_socket(lambda: Unserved(made), accepted)

    def _hand_over(self, connection: Connection, caller: Caller, transport: asyncio.Transport) -> None:
        if connection.given_up:
            transport.abort()
            return
        connection.served = served = self._serve(caller, partial(self._lost, connection))
        self.connections.finish(connection)
        transport.set_protocol(served)  # type: ignore[arg-type]
        served.connection_made(transport)

    def _lost(self, connection: Connection) -> None:
        """A served connection has ended. Its protocol and its record must not hold each other: only the garbage
        collector would find them."""
        self.connections.remove(connection)
        connection.served = connection.give_up = None

    # -- TLS ----------------------------------------------------------------------------------------------------------

    async def _shake_hands(
        self, connection: Connection, accepted: socket.socket, tls: Tls, context: ssl.SSLContext
    ) -> None:
        """Do the TLS handshake. A failure is counted with its reason."""
        left = max(connection.since + BEGIN_SECONDS - self._loop.time(), 0.1)
        unserved = Unserved(partial(self._made, connection, context, accepted))
        try:
            await self._loop.connect_accepted_socket(
                lambda: unserved, accepted, ssl=context, ssl_handshake_timeout=left
            )
        except ssl.SSLError as error:
            reason = (error.reason or "other").lower()
            tls.refused(reason, getattr(error, "verify_message", "") or reason, connection.address)
        except ConnectionAbortedError:
            tls.refused("timeout", f"not finished within {BEGIN_SECONDS:g} s", connection.address)
        except OSError:
            pass  # the peer has gone
        except ValueError as error:
            tls.refused(
                "unreadable_certificate", f"the client's certificate cannot be read: {error}", connection.address
            )

    def _made(
        self, connection: Connection, context: ssl.SSLContext, accepted: socket.socket, transport: asyncio.Transport
    ) -> None:
        """The handshake is complete, and no data after it has been read."""
        acknowledge(accepted)
        secured: ssl.SSLObject = transport.get_extra_info("ssl_object")
        certificate = transport.get_extra_info("peercert") or {}
        caller = Caller(peer_name(transport), secured.selected_alpn_protocol() == "h2", certificate)
        connection.certificate = secured.getpeercert(binary_form=True) or b""
        self._hand_over(connection, caller, transport)
        if self._tls is not None and context is not self._tls.current:
            self._renew([connection])

    # -- renewed certificates -----------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Other certificates are in use from now on: make connected clients reconnect."""
        self._renew(self.connections.open())

    def _renew(self, connections: list[Connection]) -> None:
        """End connections after their next answer; and soon, whatever is in progress, if the new files do not admit the
        client."""
        for connection in connections:
            if connection.served is not None:
                connection.served.renew()
        self._start_task(self._end_withdrawn(connections))

    async def _end_withdrawn(self, connections: list[Connection]) -> None:
        assert self._tls is not None
        until = self._loop.time() + WITHDRAWN_SECONDS
        shown = {connection.certificate for connection in connections if connection.certificate}
        withdrawn = await self._loop.run_in_executor(None, self._tls.withdrawn, shown) if shown else set()
        out = [connection for connection in connections if connection.certificate in withdrawn]
        if out:
            addresses = sorted({connection.address for connection in out})[:10]
            _log.warning("clients were let in by an authority that is not trusted any more", addresses=addresses)
            await asyncio.sleep(until - self._loop.time())
            self.connections.abort_all(out)

    # -- reports ------------------------------------------------------------------------------------------------------

    def _log_evictions(self) -> None:
        evicted = self.connections.evicted.total()
        if evicted > self._logged_evictions:
            self._logged_evictions = evicted
            self._warn("connections were closed to make room for others", **self.connections.evicted)

    def _warn(self, what: str, **more: object) -> None:
        now = self._loop.time()
        if now - self._logged_at.get(what, float("-inf")) >= _LOG_SECONDS:
            self._logged_at[what] = now
            _log.warning(what, port=self.connections.name, connections=len(self.connections), **more)
