"""Clients: certificates that are not allowed or not any more, and an attacker at a valid client's own address."""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from tests.attacks.arena import Arena, is_closed
from tests.attacks.doors import Flood, client_hello
from tests.attacks.http2 import Http2Client
from tests.attacks.probe import read_answer
from tests.attacks.registry import attack
from tests.attacks.requests import filter_request, post

#: Connections that an attacker opens in a second while valid ones are opened: its CPU would be that of the others.
_RATE = 2500
_EVICTED = 'waggle_connections_evicted_total{port="server"'
#: Seconds in which half of the valid newcomers are answered, which connect again if they have to.
_ANSWERED = 1.0


@attack("a kubelet's certificate of the same authority calls verbs", limit="verb_clients, page_clients", scheme="https")
def another_client(arena: Arena) -> str:
    answers = [
        arena.call("POST", "/bind", b"{}", client="other"),
        arena.call("GET", "/v1/inspect/pods", client="other"),
    ]
    assert [answer.status for answer in answers] == [403, 403]
    assert b"system:node:gpu-00" in arena.logged()
    return "403, its name is in the log"


# -- an attacker at its address ---------------------------------------------------------------------------------------


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Does it in a process of its own, until the end of the block."""
    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


class Newcomer(NamedTuple):
    """Seconds until a valid client's first /filter was answered, and how often it had to connect."""

    seconds: float
    tries: int


def connects_anew(arena: Arena) -> Newcomer:
    """As kube-scheduler does: where the connection is closed, it is opened again."""
    began, tries = time.monotonic(), 0
    while time.monotonic() < began + 10:
        tries += 1
        with suppress(OSError):
            arena.new_client()
            return Newcomer(time.monotonic() - began, tries)
    raise AssertionError("a valid newcomer was not served in 10 s")


def newcomers(arena: Arena, *, seconds: float) -> str:
    """Valid clients at the attacker's own address, one after the other; how long they took."""
    until, found = time.monotonic() + seconds, list[Newcomer]()
    while time.monotonic() < until:
        found.append(connects_anew(arena))
    usual, longest = statistics.median(each.seconds for each in found), max(each.seconds for each in found)
    tries = sum(each.tries for each in found) / len(found)
    assert usual < _ANSWERED, f"a valid newcomer was served after {usual:.2f} s"
    return f"{usual * 1000:.0f} ms, at most {longest * 1000:.0f} ms, {tries:.1f} tries"


@attack(
    "at kube-scheduler's own address: halves of ClientHellos, then whole ones, while it connects anew",
    limit="whole hellos before halves, the newest first; 48 handshakes under way",
    scheme="https",
)
def same_address(arena: Arena) -> str:
    hello, did = client_hello(), []
    for what, sent in (("halves", hello[:100]), ("whole ones", hello)):
        attacker = Flood(arena, hello=sent, rate=_RATE)
        with beside(partial(attacker.go_on, seconds=20, most=1_000_000)):
            time.sleep(0.3)
            before, began = arena.metric(_EVICTED), time.monotonic()
            found = newcomers(arena, seconds=1)
            rate = (arena.metric(_EVICTED) - before) / (time.monotonic() - began)
            did.append(f"{what}, {rate:.0f} a second were closed: a newcomer {found}")
    return "; ".join(did)


# -- deadlines of ten seconds -----------------------------------------------------------------------------------------


@attack(
    "a handshake that stands still, and clients of an authority that is withdrawn go on with slow bodies",
    limit="10 s for each",
    scheme="https",
    settle_seconds=2,
)
def withdrawn(arena: Arena) -> str:
    folder = arena.server.certs
    assert folder is not None
    trusted = folder / "ca.crt"
    both = trusted.read_bytes()
    with ExitStack() as opened:
        opened.callback(trusted.write_bytes, both)
        silent, idle, slow = arena.tcp(), arena.connect(client="old"), arena.connect(client="old")
        old, valid = Http2Client(arena, client="old"), Http2Client(arena)
        for each in (silent, idle, slow, old.socket, valid.socket):
            opened.callback(each.close)
        idle.sendall(filter_request("old", "uid-old"))
        assert read_answer(idle)[0] == 200
        slow.sendall(post("/filter", b" " * 1000)[:-1000])
        stream = old.head("/filter", 1000)
        trusted.write_bytes((folder / "authority.crt").read_bytes())
        ended = _ends([silent, idle, slow, old.socket], lambda: _trickle(slow, old, stream), within=13)
        valid.hear()
        assert valid.error == 0, "HTTP/2 was not told to connect anew"
        with suppress(OSError):  # it is refused
            assert not _is_served(arena.connect(client="old")), "the withdrawn authority's client was let in"
    return (
        f"closed after {min(ended):.0f} to {max(ended):.0f} s; a new one was refused, a valid one told to connect anew"
    )


def _trickle(slow: socket.socket, old: Http2Client, stream: int) -> None:
    with suppress(OSError):
        slow.send(b" ")
    with suppress(OSError):
        old.h2.send_data(stream, b" ")
        old.socket.send(old.h2.data_to_send())


def _ends(connections: list[socket.socket], meanwhile: Callable[[], None], *, within: float) -> list[float]:
    """Seconds until each was closed."""
    began, ended = time.monotonic(), dict[socket.socket, float]()
    while len(ended) < len(connections):
        assert time.monotonic() < began + within, f"{len(connections) - len(ended)} were not closed in {within:g} s"
        meanwhile()
        for each in connections:
            if each not in ended and is_closed(each, within=0.05):
                ended[each] = time.monotonic() - began
        time.sleep(0.1)
    return list(ended.values())


def _is_served(connection: socket.socket) -> bool:
    with connection:
        connection.sendall(filter_request("old", "uid-old"))
        return read_answer(connection)[0] == 200
