"""The log: what a stranger can make the server write."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Sequence
from contextlib import suppress

from tests.attacks.arena import Arena, eventually
from tests.attacks.registry import attack
from tests.attacks.requests import post

#: Bytes of log that a flood may cost: a burst of short lines of each event that it causes, then one line a second.
_FLOOD_BYTES = 40_000
#: As extender/logs/setup.py has it.
_LINE = 16_000

_TERMINAL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2028\r\n2026-01-01T00:00:00Z [info     ] all is well"

_HEAD = b"GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n"
#: Small requests that are wrong, each in a way of its own.
_WRONG: Sequence[bytes] = (
    *(
        _HEAD % (b"/metrics", b"Accept: %s;version=%s\r\n" % (kind, version))
        for kind in (b"text/plain", b"application/openmetrics-text")
        for version in (b"x", b"", b"1" * 5000)
    ),
    *(
        _HEAD % (path, b"")
        for path in (
            b"/v1/explain/%00/%ff",
            b"/v1/explain/%1b%5b2J/%e2%80%ae",
            b"/v1/inspect/pods?state=%00",
            b"/v1/inspect/pods?labelSelector=a%20in%20(",
            b"/v1/inspect/pods?nope=%1b",
            b"/v1/inspect/map?since=" + b"9" * 5000,
            b"/v1/inspect/%ed%a0%80",
            b"/ui/%00",
            b"/ui/..%2f..%2fetc%2fpasswd",
            b"/" + b"a" * 5000,
            b"//%0d%0a",
            b"\xff\xfe",
            b"http://[",
        )
    ),
    *(
        _HEAD % (b"/", header + b"\r\n")
        for header in (
            b"Host: [",
            b"Authorization: Bearer \xff",
            b"Content-Length: -1",
            b"Content-Length: 5",
            b"Transfer-Encoding: nonsense",
            b"Expect: nothing",
            b"Upgrade: websocket\r\nConnection: Upgrade",
            b"Range: bytes=5-1",
            b"Accept-Encoding: gzip;q=x",
            b"no colon",
        )
    ),
    *(
        post(path, body)
        for path in ("/filter", "/prioritize", "/preempt", "/bind", "/nowhere")
        for body in (b"", b"null", b"[" * 5000, b'{"a":' * 5000, b"\xff", b'{"Pod":{"metadata":{"uid":"\\ud800"}}}')
    ),
    b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x00\x05hello",
    b"\0" * 100,
)


@attack("bad requests for 2 s, one after the other on 8 connections", limit="30 lines of an event, then one a second")
def flood_of_bad_requests(arena: Arena) -> str:
    request = post("/filter", b'{"Pod": 1, "NodeNames": []}')
    connections = [arena.connect() for _ in range(8)]
    sent, give_up = 0, time.monotonic() + 2
    while time.monotonic() < give_up:
        for connection in connections:
            connection.sendall(request)
        for connection in connections:
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            sent += 1
    for connection in connections:
        connection.close()
    log = _seemly(arena)
    assert len(log) < _FLOOD_BYTES, f"{len(log)} bytes of log"
    counted = arena.metric('waggle_log_lines_suppressed_total{event="bad_request"}')
    assert counted > 0
    return f"{sent} answered, {log.count(b'bad_request')} lines of {len(log)} bytes, {counted:.0f} counted"


@attack("connections that speak no HTTP, for 2 s", limit="30 lines of an event, then one a second", quick=True)
def flood_of_junk(arena: Arena) -> str:
    sent, give_up = 0, time.monotonic() + 2
    while time.monotonic() < give_up:
        with arena.connect() as connection, suppress(ConnectionError):
            connection.sendall(b"\x1b[2Jnonsense\x07 %d\r\n\r\n" % sent)
            connection.recv(1 << 16)
            sent += 1
    log = _seemly(arena)
    assert len(log) < _FLOOD_BYTES, f"{len(log)} bytes of log"
    return f"{sent} answered or closed, {len(log)} bytes of log"


@attack(
    "TLS handshakes that fail, for 2 s",
    limit="30 lines of an event, then one a second; the peer's address",
    scheme="https",
)
def flood_of_failed_handshakes(arena: Arena) -> str:
    sent, give_up = 0, time.monotonic() + 2
    while time.monotonic() < give_up:
        with arena.tcp() as connection, suppress(ConnectionError):
            connection.sendall((b"\x16\x03\x01\x00\x05hello", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 50)[sent % 3])
            connection.recv(1 << 16)
            sent += 1
    log = _seemly(arena)
    assert len(log) < _FLOOD_BYTES, f"{len(log)} bytes of log"
    refused = [line for line in log.splitlines() if b"refused in the TLS handshake" in line]
    assert refused
    assert all(b"127.0.0.1" in line for line in refused), "a line does not say whose handshake it was"
    return f"{sent} refused, {len(log)} bytes of log, each line with the address"


@attack("4 MB in a field, with escape sequences", limit="1,024 characters of a value, escaped; 16,000 bytes of a line")
def long_values(arena: Arena) -> str:
    meta = {"name": "n", "namespace": "default", "uid": "u"}
    sizes = {"/filter": 900_000, "/preempt": 4_000_000}
    for path, size in sizes.items():
        long = _TERMINAL * 100 + "a" * size
        spec = {"containers": [{"resources": {"requests": {"cpu": long}}}]}
        if path == "/filter":
            body = {"Pod": {"metadata": meta, "spec": spec}, "NodeNames": []}
        else:
            body = {"Pod": {"metadata": meta}, "NodeNameToVictims": {long: {"Pods": [{"metadata": {}}]}}}
        arena.call("POST", path, json.dumps(body, ensure_ascii=False).encode())
        time.sleep(1)
    log = _seemly(arena)
    assert b"bad_request" in log
    assert b"owned" in log, "no value got into the log"
    longest = max(len(line) for line in log.split(b"\n"))
    assert longest < _LINE, f"a line of {longest} bytes"
    return f"the longest line has {longest} bytes"


@attack("small requests that are wrong, in every way", limit="one line, no traceback", quick=True)
def small_bad_input(arena: Arena) -> str:
    for health in (False, True):
        for request in _WRONG:
            with arena.connect(health=health, timeout=0.3) as connection, suppress(OSError):
                connection.sendall(request)
                answer = connection.recv(1 << 16)
                assert not answer.startswith(b"HTTP/1.1 500"), f"{request[:200]!r}: {answer[:500]!r}"
    log = _seemly(arena)
    return f"{2 * len(_WRONG)} requests, {len(log)} bytes of log, no traceback"


def _seemly(arena: Arena) -> bytes:
    """What was logged; fails if a traceback or a character that a terminal carries out is among it."""
    eventually(lambda: bool(arena.logged()), seconds=2)
    log = arena.logged()
    assert b"Traceback" not in log, log[log.index(b"Traceback") :][:2000].decode(errors="replace")
    carried_out = {each for each in log.decode() if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")} - {"\n"}
    assert not carried_out, f"characters that control: {carried_out}"
    assert b"\n2026-01-01" not in log, "a line that was never written"
    return log
