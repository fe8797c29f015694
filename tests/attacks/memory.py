"""Memory: bytes that one client can make the server keep, and the cost of large valid bodies for others."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from tests.attacks.arena import Arena, eventually
from tests.attacks.http2 import Http2Client
from tests.attacks.probe import read_answer
from tests.attacks.registry import attack
from tests.attacks.requests import filter_body, pod, post

_MIB = 1 << 20
_PIECE = b" " * _MIB


def begin(length: int) -> bytes:
    return b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % length


def send_all(connections: Sequence[socket.socket], size: int, *, seconds: float) -> int:
    """Sends that many bytes on each connection, a piece at a time; returns how many were taken in all."""
    left = dict.fromkeys(connections, size)
    give_up = time.monotonic() + seconds
    taken = 0
    for each in connections:
        each.setblocking(False)
    while left and time.monotonic() < give_up:
        _, writable, _ = select.select([], list(left), [], 0.1)
        for each in writable:
            try:
                sent = each.send(memoryview(_PIECE)[: left[each]])
            except BlockingIOError:
                continue
            except OSError:
                del left[each]
                continue
            taken += sent
            left[each] -= sent
            if not left[each]:
                del left[each]
    return taken


@attack("40 bodies of 31 MiB that are not finished", limit="96 MiB for all bodies together", comparable=True)
def unfinished_bodies(arena: Arena) -> str:
    with ExitStack() as opened:
        connections = [opened.enter_context(arena.connect()) for _ in range(40)]
        for each in connections:
            each.sendall(begin(32 * _MIB))
        taken = send_all(connections, 31 * _MIB, seconds=4)
        time.sleep(0.5)
    return f"{taken / _MIB:.0f} MiB received, of which the oldest were dropped"


@attack("60 bodies of 16 MiB, not finished, on one HTTP/2 connection", limit="96 MiB for all bodies", scheme="https")
def http2_bodies(arena: Arena) -> str:
    give_up = time.monotonic() + 3
    sent = 0
    with Http2Client(arena) as client:
        client.socket.settimeout(0.5)
        with suppress(OSError):
            client.socket.sendall(client.h2.data_to_send())
            time.sleep(0.1)
            client.hear()
            numbers = [client.head("/filter", 17 * _MIB) for _ in range(60)]
            client.socket.sendall(client.h2.data_to_send())
            while time.monotonic() < give_up:
                for number in numbers:
                    with suppress(Exception):  # it was refused meanwhile
                        window = client.h2.local_flow_control_window(number)
                        if window >= 16_384:
                            client.h2.send_data(number, bytes(16_384))
                            sent += 16_384
                client.socket.settimeout(2)
                client.socket.sendall(client.h2.data_to_send())
                client.hear()
    return f"{sent / _MIB:.0f} MiB sent in 4 s"


def _names(number: int) -> tuple[str, ...]:
    return tuple(f"node-{index:06}" for index in range(number))


@attack("answers that nobody takes: 100 connections, 200 requests of 5,000 names on each", limit="one answer unsent")
def answers_not_taken(arena: Arena) -> str:
    asked = post("/filter", filter_body(pod("probe-0", uid="u", gpus=99), _names(5_000)))
    with ExitStack() as opened:
        connections = [opened.enter_context(arena.connect()) for _ in range(100)]
        give_up = time.monotonic() + 3
        taken = 0
        for each in connections:
            each.setblocking(False)
        while time.monotonic() < give_up:
            _, writable, _ = select.select([], connections, [], 0.1)
            for each in writable[:10]:
                with suppress(BlockingIOError):
                    taken += each.send(asked * 5)
    return f"{taken / _MIB:.0f} MiB of requests taken, then nothing more"


@attack("HTTP/2: answers that nobody takes, 100 streams of 5,000 names", limit="1 MiB unsent", scheme="https")
def http2_answers_not_taken(arena: Arena) -> str:
    body = filter_body(pod("probe-0", uid="u", gpus=99), _names(5_000))
    asked = 0
    clients = [Http2Client(arena) for _ in range(10)]
    for client in clients:
        client.socket.settimeout(0.5)
        client.socket.sendall(client.h2.data_to_send())
    with suppress(OSError):
        for client in clients:
            time.sleep(0.05)
            client.hear()
            client.h2.update_settings({4: 0})  # no room for any answer
            for _ in range(90):
                number = client.head("/filter", len(body))
                for start in range(0, len(body), 16_384):
                    if client.h2.local_flow_control_window(number) < 16_384:
                        client.socket.sendall(client.h2.data_to_send())
                        client.hear()
                    client.h2.send_data(number, body[start : start + 16_384])
                client.h2.end_stream(number)
                client.socket.sendall(client.h2.data_to_send())
                asked += 1
    time.sleep(1)
    for client in clients:
        client.socket.close()
    return f"{asked} requests, of which a few were answered"


def ask_again(arena: Arena, asked: bytes, *, connections: int, seconds: float = 1.5) -> list[bytes]:
    """The first bytes of all answers, on so many connections, one request after the other."""
    answers = []
    give_up = time.monotonic() + seconds
    with ExitStack() as opened:
        all_of_them = [opened.enter_context(arena.connect()) for _ in range(connections)]
        while time.monotonic() < give_up:
            for each in all_of_them:
                each.sendall(asked)
            for each in all_of_them:
                answers.append(_answer(each))
    return answers


def _answer(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 18)
    return body[:300]


@attack("200,000 names in a body, again and again", limit="20,000 names", comparable=True)
def many_names(arena: Arena) -> str:
    asked = post("/filter", filter_body(pod("probe-0", uid="u"), _names(200_000)))
    answers = ask_again(arena, asked, connections=2)
    assert all(b"expected at most" in answer or b"between two commas" in answer for answer in answers)
    return f"{len(answers)} refused"


@attack(
    "20,000 names in a body, as many as are allowed, on 4 connections", limit="one such answer a turn", comparable=True
)
def allowed_names(arena: Arena) -> str:
    asked = post("/filter", filter_body(pod("probe-0", uid="u", gpus=99), _names(20_000)))
    return f"{len(ask_again(arena, asked, connections=4))} answered"


@attack("31 MiB of tiny nodes in a body", limit="10,000 nodes, read no further")
def tiny_nodes(arena: Arena) -> str:
    item = b'{"metadata":{"name":"x"}}'
    body = b'{"Pod":{"metadata":{"uid":"u"}},"Nodes":{"items":[%s]}}' % b",".join(
        [item] * (31 * _MIB // len(item) - 99_999)
    )
    answers = ask_again(arena, post("/filter", body), connections=1)
    assert all(b"more than 10000 nodes" in answer for answer in answers)
    return f"{len(answers)} refused"


@attack("bodies that are made to be long to decode, up to 31 MiB", limit="a third of costly bytes; 8 MiB of /preempt")
def made_bodies(arena: Arena) -> str:
    asking = b'{"Pod":{"metadata":{"name":"a","namespace":"a","uid":"u"}},'
    victims = b'"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"%s"}]}}}' % ("\u00e9".encode() * (4 * _MIB - 100))
    requests = (
        post("/preempt", asking + victims),
        post("/filter", asking + b'"NodeNames":["a"],"X":[%s1]}' % (b"[[[[[[[[[[]]]]]]]]]]," * (31 * _MIB // 21 - 99))),
        post("/filter", asking + b'"NodeNames":["%s"]}' % (b"\\u0061" * (31 * _MIB // 6 - 99))),
    )
    answers = sum(len(ask_again(arena, asked, connections=1, seconds=0.7)) for asked in requests)
    return f"{answers} answered"


@attack(
    "300 HTTP/2 connections that end with 15 bodies unfinished", limit="nothing is in a reference cycle", scheme="https"
)
def left_connections(arena: Arena) -> str:
    give_up = time.monotonic() + 5
    ended = 0
    while ended < 300 and time.monotonic() < give_up:
        with Http2Client(arena) as client, suppress(OSError):
            client.socket.settimeout(1)
            for _ in range(15):
                client.h2.send_data(client.head("/filter", _MIB), bytes(4_000))
            client.socket.sendall(client.h2.data_to_send())
        ended += 1
    return f"{ended} came and went"


@attack(
    "500 unfinished bodies of 250 KB, from one address", limit="96 MiB for all bodies; the address with the most pays"
)
def crowd_of_bodies(arena: Arena) -> str:
    large = post("/filter", filter_body(pod("large", uid="uid-large"), tuple(f"node-{n:0100}" for n in range(18_000))))
    answered = []
    with ExitStack() as opened:
        for _ in range(500):
            connection = opened.enter_context(arena.tcp(source="127.0.0.9"))
            connection.sendall(begin(30_000_000) + bytes(250_000))
        assert eventually(lambda: arena.metric('waggle_http_waiting_bytes{what="bodies"}') > 90e6), "nothing is full"
        for _ in range(10):
            with arena.tcp() as innocent, suppress(ConnectionError):
                for start in range(0, len(large), 200_000):
                    innocent.sendall(large[start : start + 200_000])
                    time.sleep(0.003)
                answered.append(json.loads(read_answer(innocent)[1])["Error"])
    assert answered == [""] * 10, f"of 10 valid requests of 2 MB these were answered: {answered}"
    return "10 valid requests of 2 MB from another address were answered"
