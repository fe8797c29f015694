"""Requests for claimed pods: bodies, queues and looks that are made to be dear, beside a server's verbs.

The pool has no pods, so that every request waits.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.attacks.arena import Answer, Arena, eventually
from tests.attacks.registry import attack

_SETTINGS = {"claims": {"enabled": True, "pools": [{"name": "warm", "selector": {"pool": "warm"}}]}}
_POOL = "/v1/pools/default/warm"
_CLAIMS = f"{_POOL}/claims"
_LATER = {"Prefer": "respond-async"}


def _served(arena: Arena) -> None:
    """Wait until the pool is served."""
    assert eventually(lambda: arena.call("GET", "/readyz/claims", health=True).status == 200)


def _ask(arena: Arena, times: int, connections: int, **body: Any) -> list[Answer]:
    """So many requests that nobody waits for, of so many tenants."""

    def ask(tenant: int) -> list[Answer]:
        found = []
        with arena.connect() as opened:
            connection = http.client.HTTPConnection("127.0.0.1")
            connection.sock = opened
            for _ in range(times // connections):
                text = json.dumps({"tenant": f"t{tenant}", "wait_seconds": 20, **body})
                connection.request("POST", _CLAIMS, text, _LATER)
                answer = connection.getresponse()
                found.append(Answer(answer.status, dict(answer.getheaders()), answer.read()))
        return found

    with ThreadPoolExecutor(connections) as threads:
        return [answer for answers in threads.map(ask, range(connections)) for answer in answers]


def _pending(arena: Arena) -> int:
    return int(json.loads(arena.call("GET", _POOL).body)["pending"])


@attack(
    "claims: bodies of 30,000 labels that are numbers, on 4 connections",
    limit="64 entries of an object, counted first",
    settings=_SETTINGS,
)
def wrong_labels(arena: Arena) -> str:
    _served(arena)
    answers = _ask(arena, 60, 4, labels={f"a{number}": number for number in range(30_000)})
    assert {answer.status for answer in answers} == {400}, answers[0]
    return f"{len(answers)} of them are refused with 400"


@attack(
    "claims: 3,000 requests that wait, with 60 KB of annotations each, which nobody waits for",
    limit="64 MiB of all that wait",
    settings=_SETTINGS,
    left_mib=128,
)
def heavy_queue(arena: Arena) -> str:
    _served(arena)
    answers = _ask(arena, 3000, 4, annotations={f"a{number}": "x" * 15_000 for number in range(4)})
    accepted = sum(answer.status == 202 for answer in answers)
    assert {answer.status for answer in answers} <= {202, 429}
    assert accepted <= 1200, f"{accepted} accepted"
    assert eventually(lambda: _pending(arena) == 0, seconds=40)
    return f"{accepted} are accepted, the others get 429"


@attack(
    "claims: labels that no pod has, as many as may wait, and an ordinary request",
    limit="16 of 64 requirements are kept for others; without one always",
    settings=_SETTINGS,
)
def junk_requirements(arena: Arena) -> str:
    _served(arena)
    refused = 0
    for number in range(70):
        refused += _ask(arena, 1, 1, requires={f"j{number}": "x"})[0].status == 429
    assert refused >= 16, f"{refused} refused"
    body = json.dumps({"tenant": "other", "wait_seconds": 1})
    assert arena.call("POST", _CLAIMS, body.encode(), _LATER).status == 202
    return f"{refused} of 70 are refused, and the ordinary one waits"


@attack(
    "claims: 3,000 requests wait; pages of 1,000 claims, and each place in the queue",
    limit="a long queue is ranked once a second",
    settings=_SETTINGS,
)
def looks(arena: Arena) -> str:
    _served(arena)
    known = [answer.headers["location"] for answer in _ask(arena, 3000, 4) if answer.status == 202]
    slowest, until, number = 0.0, time.monotonic() + 3, 0
    while time.monotonic() < until:
        for path in (f"{_CLAIMS}?limit=1000", known[number % len(known)], _POOL):
            began = time.monotonic()
            assert arena.call("GET", path).status == 200
            slowest = max(slowest, time.monotonic() - began)
        number += 1
    assert eventually(lambda: _pending(arena) == 0, seconds=40)
    return f"the slowest look took {1e3 * slowest:.0f} ms"


@attack(
    "claims: 1,500 callers that leave before, while and after they are queued",
    limit="a caller that leaves is out of the queue",
    settings=_SETTINGS,
)
def leaving(arena: Arena) -> str:
    _served(arena)
    body = b'{"wait_seconds":600}'
    head = f"POST {_CLAIMS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    opened = []
    for number in range(1500):
        caller = arena.connect()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", number % 2, 0))
        caller.sendall((head + body)[: number if number < len(head) else None])
        opened.append(caller)
        if len(opened) == 300:
            for each in opened:
                each.close()
            opened.clear()
    assert eventually(lambda: _pending(arena) == 0)
    return "nobody is left in the queue"
