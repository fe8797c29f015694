"""HTTP/1.1: what one client can do within a connection."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from extender.web.http.connections import raise_descriptor_limit
from tests.attacks.arena import Arena
from tests.attacks.probe import read_answer
from tests.attacks.registry import attack

_SMALL = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
_BURST = _SMALL * ((4 << 20) // len(_SMALL))


@attack(
    "pipelined verbs, 4 MB of them in one burst, answers read",
    limit="one answer a loop turn",
    comparable=True,
)
def pipelined_verbs(arena: Arena) -> str:
    answers, sent = 0, 0
    give_up = time.monotonic() + 1.5
    with arena.connect() as connection, suppress(ConnectionError):
        connection.setblocking(False)
        while time.monotonic() < give_up:
            readable, writable, _ = select.select([connection], [connection] if sent < len(_BURST) else [], [], 0.5)
            if readable:
                data = connection.recv(1 << 18)
                if not data:
                    break
                answers += data.count(b"HTTP/1.1 ")
            if writable:
                sent += connection.send(memoryview(_BURST)[sent : sent + (1 << 18)])
    assert answers > 0
    return f"{answers} answered of {len(_BURST) // len(_SMALL)} in 1.5 s"


@attack("pipelined verbs on 50 connections at once, no answer read", limit="one answer a turn; unsent ones stop it")
def pipelined_on_many(arena: Arena) -> str:
    with ExitStack() as opened:
        connections = [opened.enter_context(arena.connect()) for _ in range(50)]
        sent, give_up = 0, time.monotonic() + 1.5
        for each in connections:
            each.setblocking(False)
        while time.monotonic() < give_up:
            _, writable, _ = select.select([], connections, [], 0.1)
            for each in writable:
                with suppress(BlockingIOError, ConnectionError):
                    sent += each.send(memoryview(_BURST)[: 1 << 18])
    return f"{sent / (1 << 20):.0f} MiB of requests taken"


@attack("pipelined pages", limit="one page of a connection at a time", comparable=True)
def pipelined_pages(arena: Arena) -> str:
    burst = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20_000
    sent, give_up = 0, time.monotonic() + 1.5
    with arena.connect() as connection, suppress(ConnectionError):
        connection.setblocking(False)
        while time.monotonic() < give_up:
            readable, writable, _ = select.select([connection], [connection], [], 0.1)
            if readable and not connection.recv(1 << 18):
                break
            if writable:
                with suppress(BlockingIOError):
                    sent += connection.send(memoryview(burst)[sent % 40 :])
    return f"{sent >> 10} KiB of requests taken"


@attack("tiny chunks and empty lines", limit="4 KiB parsed a turn")
def tiny_chunks(arena: Arena) -> str:
    chunks = b"1\r\n \r\n" * 200_000
    sent, give_up = 0, time.monotonic() + 1.5
    with arena.connect() as body, arena.connect() as lines, suppress(ConnectionError):
        body.sendall(b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        for each in (body, lines):
            each.setblocking(False)
        while time.monotonic() < give_up:
            for each, piece in ((body, chunks), (lines, b"\r\n" * 4096)):
                with suppress(BlockingIOError):
                    sent += each.send(piece)
            time.sleep(0.001)
    return f"{sent >> 10} KiB taken"


@attack("a verb in the body of a request with Upgrade", limit="refused and closed", quick=True)
def upgrade(arena: Arena) -> str:
    hidden = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    for protocol in (b"h2c", b"websocket"):
        for apart in (False, True):
            with arena.connect() as connection:
                head = b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: %s\r\n" % protocol
                head += b"Content-Length: %d\r\n\r\n" % len(hidden)
                connection.sendall(head if apart else head + hidden)
                if apart:
                    time.sleep(0.1)
                    with suppress(ConnectionError):
                        connection.sendall(hidden)
                answers = b""
                with suppress(ConnectionError, TimeoutError):
                    while data := connection.recv(1 << 16):
                        answers += data
                assert answers.count(b"HTTP/1.1 ") <= 1, answers
                assert b" 200 OK" not in answers, answers
    return "400 and closed, each time"


@attack("heads that do not end, 200 connections", limit="10 s for a head", settle_seconds=10)
def slow_heads(arena: Arena) -> str:
    with ExitStack() as opened:
        connections = [opened.enter_context(arena.connect()) for _ in range(200)]
        for each in connections:
            each.sendall(b"POST /filter HTTP/1.1\r\nHost: ")
        time.sleep(2)
        with suppress(ConnectionError):
            for each in connections:
                each.sendall(b"a" * 1000)
    return "they wait, and end after 10 s"


_PAGES = tuple(
    b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path for path in (b"/metrics", b"/v1/inspect/pods", b"/nowhere")
)


@attack("a page on each of 900 connections, all at the same moment", limit="1 ms of an iteration; verbs before pages")
def same_moment(arena: Arena) -> str:
    raise_descriptor_limit()
    with ExitStack() as opened:
        connections = list[socket.socket]()
        while len(connections) < 900:
            some = [opened.enter_context(arena.connect()) for _ in range(150)]
            _ask_all(some)  # one that has sent nothing would soon be closed for others
            connections += some
        rounds, give_up = 0, time.monotonic() + 1
        while time.monotonic() < give_up:
            rounds += 1
            _ask_all(connections)
    return f"{rounds} times, all answered"


def _ask_all(connections: Sequence[socket.socket]) -> None:
    """One page on each, then all answers."""
    for number, each in enumerate(connections):
        each.sendall(_PAGES[number % len(_PAGES)])
    for each in connections:
        read_answer(each)
