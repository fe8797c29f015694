"""Access: floods of connections, handshakes that do not end, browsers, pages that wait."""

from __future__ import annotations

import json
import select
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

from extender.web.http.connections import raise_descriptor_limit
from tests.attacks.arena import Arena
from tests.attacks.registry import attack
from tests.attacks.requests import filter_request

#: Another address than the innocent caller's.
_ELSEWHERE = "127.0.0.2"
#: Connections that an attacker opens in a second.
_RATE = 5000
#: Connections that the issue's breaker opened, and seconds that an attack opens some for.
_MANY = 18_000
_SECONDS = 2.0
#: Seconds in which a valid client gets in and is answered meanwhile.
_GETS_IN = 2.0


class Flood:
    """Connections of one attacker, as many as it can open; the oldest are given up where its own descriptors end."""

    def __init__(
        self,
        arena: Arena,
        *,
        health: bool = False,
        hello: bytes = b"",
        source: str = "127.0.0.1",
        keep: int = 4000,
        rate: int = _RATE,
    ) -> None:
        raise_descriptor_limit()
        self._port = arena.server.health_port if health else arena.server.port
        self._hello, self._source, self._keep, self._rate = hello, source, keep, rate
        self.opened: list[socket.socket] = []
        self.number = 0

    def go_on(self, *, seconds: float = _SECONDS, most: int = _MANY) -> None:
        """Opens connections for that many seconds."""
        began = time.monotonic()
        while time.monotonic() < began + seconds and self.number < most:
            self.open_one()
            if (ahead := began + self.number / self._rate - time.monotonic()) > 0.005:
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
