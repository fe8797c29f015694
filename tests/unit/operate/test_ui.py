"""The local server of `waggle ui` towards others with an account on this machine: how many connections it takes."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from threading import Thread
from typing import cast

from extender.operate import ui
from extender.operate.reach import Connection
from extender.operate.ui import LocalPages
from tests.support.apiserver.api import eventually


def _status(connection: socket.socket) -> bytes:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: another\r\nConnection: close\r\n\r\n")
    return connection.recv(12)


def test_connections_beyond_the_bound_are_closed_and_there_is_room_again_when_others_leave() -> None:
    with ExitStack() as opened:
        pages = opened.enter_context(LocalPages(cast("Connection", None)))
        serving = Thread(target=pages.serve_forever, args=(0.01,))
        serving.start()
        opened.callback(serving.join)
        opened.callback(pages.shutdown)

        def connect() -> socket.socket:
            return opened.enter_context(socket.create_connection(("127.0.0.1", pages.server_port), timeout=10))

        idle = [connect() for _ in range(ui._MOST_CONNECTIONS)]
        assert connect().recv(1) == b""
        assert _status(idle[0]) == b"HTTP/1.1 421"
        idle[1].close()

        def served() -> bool:
            try:
                return _status(connect()) == b"HTTP/1.1 421"
            except OSError:  # not yet: it was closed
                return False

        eventually(served)
