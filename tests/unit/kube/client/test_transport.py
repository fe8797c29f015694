"""A connection waits for its peer until the deadline, however often the deadline moves."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator

import pytest

from extender.kube.client.transport import Connection, Endpoint


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def connection(listener: socket.socket) -> Iterator[Connection]:
    connection = Endpoint(*listener.getsockname()[:2]).open(10)
    yield connection
    connection.close()


@pytest.fixture
def peer(listener: socket.socket, connection: Connection) -> Iterator[socket.socket]:
    accepted, _ = listener.accept()
    with accepted:
        yield accepted


def test_a_deadline_that_moves_on_changes_the_socket_once(peer: socket.socket, connection: Connection) -> None:
    changes = []
    wire = connection._socket
    connection._socket = Watched(wire, changes)  # type: ignore[assignment]
    for _ in range(5):
        peer.sendall(b"x")
        assert connection.receive(time.monotonic() + 30) == b"x"
    assert len(changes) == 1


def test_a_deadline_that_comes_sooner_counts(peer: socket.socket, connection: Connection) -> None:
    peer.sendall(b"x")
    connection.receive(time.monotonic() + 30)
    with pytest.raises(TimeoutError):
        connection.receive(time.monotonic() + 0.05)


def test_a_time_out_from_before_does_not_end_a_later_wait(peer: socket.socket, connection: Connection) -> None:
    with pytest.raises(TimeoutError):
        connection.receive(time.monotonic() + 0.05)
    connection._socket = TimedOutOnce(connection._socket)  # type: ignore[assignment]
    peer.sendall(b"x")
    assert connection.receive(time.monotonic() + 30) == b"x"


def test_a_peer_that_does_not_acknowledge_has_failed(peer: socket.socket, connection: Connection) -> None:
    connection._socket = TimedOutOnce(connection._socket, errno.ETIMEDOUT, "Connection timed out")  # type: ignore[assignment]
    peer.sendall(b"x")
    with pytest.raises(TimeoutError, match="Connection timed out"):
        connection.receive(time.monotonic() + 30)


class Watched:
    """A socket, and how often its time-out was changed."""

    def __init__(self, wire: socket.socket, changes: list[float]) -> None:
        self._wire, self._changes = wire, changes
        self.gettimeout, self.recv, self.close = wire.gettimeout, wire.recv, wire.close

    def settimeout(self, seconds: float) -> None:
        self._changes.append(seconds)
        self._wire.settimeout(seconds)


class TimedOutOnce:
    """A socket whose first read times out."""

    def __init__(self, wire: socket.socket, *error: int | str) -> None:
        self._wire, self._error = wire, error
        self.gettimeout, self.settimeout, self.close = wire.gettimeout, wire.settimeout, wire.close
        self._reads = 0

    def recv(self, most: int) -> bytes:
        self._reads += 1
        if self._reads == 1:
            raise TimeoutError(*(self._error or ("timed out",)))
        return self._wire.recv(most)
