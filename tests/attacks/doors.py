"""Access: floods of connections, handshakes that do not end, browsers, names of clients, pages that wait."""

from __future__ import annotations

import json
import multiprocessing
import select
import socket
import ssl
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from extender.web.connections import raise_descriptor_limit
from tests.attacks.arena import Arena, is_closed
from tests.attacks.registry import attack
from tests.attacks.requests import filter_request

#: Another address than the innocent caller's.
_ELSEWHERE = "127.0.0.2"
#: Connections that an attacker opens in a second.
_RATE = 5000
#: Connections that the issue's breaker opened, and seconds that an attack opens some for.
_MANY = 18_000
_SECONDS = 3.0
#: Seconds in which a valid client gets in and is answered meanwhile.
_GETS_IN = 2.0
_EVICTED = 'waggle_connections_evicted_total{port="server"'
#: The same where it has the attacker's address and connects again if it has to: half of the newcomers.
_ANSWERED = 1.0


class Flood:
    """Connections of one attacker, as many as it can open; the oldest are given up where its own descriptors end."""

    def __init__(
        self, arena: Arena, *, health: bool = False, hello: bytes = b"", source: str = "127.0.0.1", keep: int = 4000
    ) -> None:
        raise_descriptor_limit()
        self._port = arena.server.health_port if health else arena.server.port
        self._hello, self._source, self._keep = hello, source, keep
        self.opened: list[socket.socket] = []
        self.number = 0

    def go_on(self, *, seconds: float = _SECONDS, most: int = _MANY) -> None:
        """Opens connections for that many seconds."""
        began = time.monotonic()
        while time.monotonic() < began + seconds and self.number < most:
            self.open_one()
            if (ahead := began + self.number / _RATE - time.monotonic()) > 0.005:
                time.sleep(ahead)  # the attacker's CPU would be the server's

    def open_one(self) -> None:
        connection = socket.socket()
        connection.bind((self._source, 0))
        connection.setblocking(False)
        with suppress(OSError):
            connection.connect_ex(("127.0.0.1", self._port))
            if self._hello:
                connection.settimeout(1)
                connection.sendall(self._hello)
        self.opened.append(connection)
        self.number += 1
        if len(self.opened) > self._keep:
            self.opened.pop(0).close()

    def close(self) -> None:
        for connection in self.opened:
            connection.close()


@contextmanager
def flood(arena: Arena, **how: object) -> Iterator[Flood]:
    found = Flood(arena, **how)  # type: ignore[arg-type]
    try:
        yield found
    finally:
        found.close()


def client_hello() -> bytes:
    """The first message of a TLS client that never sends another one."""
    context = ssl.create_default_context()
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def gets_in(arena: Arena) -> float:
    """Milliseconds in which a valid newcomer is served, the worst of five."""
    worst = max(arena.new_client() for _ in range(5))
    assert worst < _GETS_IN, f"a valid newcomer waited for {worst:.1f} s"
    return worst * 1000


# -- TLS that does not begin, or does not end -------------------------------------------------------------------------


@attack(
    "TLS connections that send nothing, 5,000 a second",
    limit="no TLS object before the first byte; 256 that have not begun",
    scheme="https",
    quick=True,
)
def silent_tls(arena: Arena) -> str:
    with flood(arena) as attacker:
        attacker.go_on()
        newcomer = gets_in(arena)
        assert arena.metric('waggle_connections{port="server",state="beginning"}') <= 256
    return f"{attacker.number} opened, 256 kept; a newcomer was served in {newcomer:.0f} ms"


@attack("TLS connections that send half a ClientHello", limit="256 that have not begun, 48 under way", scheme="https")
def half_hello(arena: Arena) -> str:
    with flood(arena, hello=client_hello()[:100], source=_ELSEWHERE) as attacker:
        attacker.go_on()
        newcomer = gets_in(arena)
    return f"{attacker.number} opened; a newcomer was served in {newcomer:.0f} ms"


@attack("whole ClientHellos, and nothing after them", limit="one handshake begun in a turn of the loop", scheme="https")
def hellos(arena: Arena) -> str:
    with flood(arena, hello=client_hello(), source=_ELSEWHERE) as attacker:
        attacker.go_on()
        newcomer = gets_in(arena)
    return f"{attacker.number} opened; a newcomer of another address was served in {newcomer:.0f} ms"


@attack(
    "complete handshakes, one after the other, without a request", limit="never completed a request", scheme="https"
)
def handshakes(arena: Arena) -> str:
    number = 0
    with ExitStack() as opened:
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            with suppress(OSError):
                opened.enter_context(arena.connect())
                number += 1
        newcomer = gets_in(arena)
    return f"{number} handshakes; a newcomer was served in {newcomer:.0f} ms"


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
    "at kube-scheduler's own address: halves of ClientHellos, then whole ones, 5,000 a second, while it connects anew",
    limit="whole hellos before halves, the newest first; 48 handshakes under way",
    scheme="https",
)
def same_address(arena: Arena) -> str:
    hello, did = client_hello(), []
    for what, sent in (("halves", hello[:100]), ("whole ones", hello)):
        attacker = Flood(arena, hello=sent)
        with beside(partial(attacker.go_on, seconds=20, most=1_000_000)):
            time.sleep(0.3)
            before, began = arena.metric(_EVICTED), time.monotonic()
            found = newcomers(arena, seconds=1)
            rate = (arena.metric(_EVICTED) - before) / (time.monotonic() - began)
            did.append(f"{what}, {rate:.0f} a second were closed: a newcomer {found}")
    return "; ".join(did)


# -- descriptors ------------------------------------------------------------------------------------------------------


@attack("idle connections to the health port", limit="200 connections", quick=True)
def idle_health(arena: Arena) -> str:
    with flood(arena, health=True) as attacker:
        attacker.go_on(seconds=2)
        began = time.monotonic()
        assert arena.call("GET", "/livez", health=True).status == 200
        probe = time.monotonic() - began
        assert probe < _GETS_IN, f"a probe waited for {probe:.1f} s"
        newcomer = gets_in(arena)
        assert arena.metric('waggle_connections{port="health",state="open"}') <= 200
    return f"{attacker.number} opened, 200 kept; a probe took {probe * 1000:.0f} ms, a newcomer {newcomer:.0f} ms"


@attack("idle connections to the verbs' port", limit="256 that have not begun")
def idle_server(arena: Arena) -> str:
    with flood(arena) as attacker:
        attacker.go_on(seconds=2)
        newcomer = gets_in(arena)
        assert arena.metric('waggle_connections{port="server",state="open"}') <= 1000
    return f"{attacker.number} opened, 256 kept; a newcomer was served in {newcomer:.0f} ms"


@attack("requests sent ahead on each of 220 connections to the health port", limit="half of all places", quick=True)
def all_answer(arena: Arena) -> str:
    scrapes = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 400
    with flood(arena, health=True, hello=scrapes, source=_ELSEWHERE) as attacker:
        attacker.go_on(most=220)
        probes = []
        for _ in range(5):
            began = time.monotonic()
            assert arena.call("GET", "/livez", health=True).status == 200
            probes.append(time.monotonic() - began)
        assert max(probes) < _GETS_IN, f"a probe waited for {max(probes):.1f} s"
    return f"each of 200 had an answer under way; a probe took {max(probes) * 1000:.0f} ms"


@attack("a request on each of 1,500 connections, then nothing", limit="longest unused first, of the heaviest address")
def used_and_idle(arena: Arena) -> str:
    livez = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    with ExitStack() as opened:
        for _ in range(1500):
            connection = opened.enter_context(arena.tcp())
            connection.sendall(livez)
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        newcomer = gets_in(arena)
        assert arena.metric('waggle_connections{port="server",state="open"}') <= 1000
    return f"1,000 kept; a newcomer was served in {newcomer:.0f} ms"


@attack("connections that are opened and closed at once", limit="1 ms of accepts in a turn of the loop")
def open_and_close(arena: Arena) -> str:
    with flood(arena, keep=1) as attacker:
        attacker.go_on(most=1_000_000)
        newcomer = gets_in(arena)
    return f"{attacker.number} opened and closed; a newcomer was served in {newcomer:.0f} ms"


# -- browsers and names -----------------------------------------------------------------------------------------------


@attack("a page in a browser posts text/plain to /filter", limit="403 with an Origin", quick=True)
def browser(arena: Arena) -> str:
    foreign = {"Origin": "https://attacker.example", "Content-Type": "text/plain"}
    body = filter_request("victim", "uid-victim").partition(b"\r\n\r\n")[2]
    assert arena.call("POST", "/filter", body, foreign).status == 403
    assert arena.call("POST", "/v1/extender/bind", b"{}", {**foreign, "Origin": "null"}).status == 403
    assert b"uid-victim" not in arena.call("GET", "/v1/inspect/cache").body
    return "403, no hold was taken"


@attack("pages under a name that was made to lead here (DNS rebinding)", limit="421", quick=True)
def rebinding(arena: Arena) -> str:
    answers = [arena.call("GET", path, headers={"Host": "attacker.example:9096"}) for path in ("/", "/v1/inspect/pods")]
    assert {answer.status for answer in answers} == {421}
    assert arena.call("GET", "/metrics", headers={"Host": "prometheus.example"}).status == 200
    return "421; /metrics under any name"


@attack("a kubelet's certificate of the same authority calls verbs", limit="verb_clients, page_clients", scheme="https")
def another_client(arena: Arena) -> str:
    answers = [
        arena.call("POST", "/bind", b"{}", client="other"),
        arena.call("GET", "/v1/inspect/pods", client="other"),
    ]
    assert [answer.status for answer in answers] == [403, 403]
    assert b"system:node:gpu-00" in arena.logged()
    return "403, its name is in the log"


# -- pages that wait --------------------------------------------------------------------------------------------------


@attack("60 times cache/diff while the API server hangs", limit="one comparison at a time, equal requests share it")
def hanging_diff(arena: Arena) -> str:
    hang = {"action": "delay", "method": "LIST", "path": "limit=500", "seconds": 2.0, "times": None}
    arena.api.post("/debug/faults", json=[hang]).raise_for_status()
    try:
        with ThreadPoolExecutor(60) as people:
            waiting = [people.submit(arena.call, "GET", "/v1/inspect/cache/diff", timeout=30) for _ in range(60)]
            time.sleep(0.5)
            worst = 0.0
            for path in ("/metrics", "/livez", "/v1/inspect/pods", "/metrics"):
                began = time.monotonic()
                assert arena.call("GET", path).status == 200
                worst = max(worst, time.monotonic() - began)
            assert worst < _GETS_IN, f"another page waited for {worst:.1f} s"
            arena.api.delete("/debug/faults")
            statuses = {each.result().status for each in waiting}
    finally:
        arena.api.delete("/debug/faults")
    assert statuses == {200}
    return f"all answered; meanwhile other pages took {worst * 1000:.0f} ms at most"


@attack("scrapes of /metrics from 50 connections, as fast as they come", limit="one at a time, equal requests share it")
def scrapes(arena: Arena) -> str:
    request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    until, answered = time.monotonic() + 2, 0
    with ExitStack() as opened:
        connections = [opened.enter_context(arena.tcp(health=True)) for _ in range(50)]
        for connection in connections:
            connection.sendall(request)
        while time.monotonic() < until:
            for connection in select.select(connections, [], [], 0.5)[0]:
                # The last bytes of an answer: the next request may come.
                if connection.recv(1 << 20).endswith(b"\n"):
                    answered += 1
                    connection.sendall(request)
    assert answered > 0
    return f"{answered} answered in 2 s"


@attack("pages from 50 connections, each a different one", limit="two at a time")
def many_pages(arena: Arena) -> str:
    def ask(number: int) -> int:
        return arena.call("GET", f"/v1/inspect/nodes?labelSelector=a!%3D{number}").status

    until, statuses = time.monotonic() + 2, set[int]()
    with ThreadPoolExecutor(50) as people:
        while time.monotonic() < until:
            statuses |= set(people.map(ask, range(50)))
    assert statuses <= {200, 503}, json.dumps(sorted(statuses))
    return f"answered with {', '.join(map(str, sorted(statuses)))}"


@attack("a handshake that stands still", limit="10 s", scheme="https", settle_seconds=2)
def stalled_handshake(arena: Arena) -> str:
    with arena.tcp() as silent:
        assert is_closed(silent, within=12), "it was not closed within 12 s"
    return "closed within 12 s"
