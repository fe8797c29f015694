"""HTTP/1.1: what one client can do within a connection."""

from __future__ import annotations

import select
import time
from contextlib import suppress

from tests.attacks.arena import Arena
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
    give_up = time.monotonic() + 3
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
    return f"{answers} answered of {len(_BURST) // len(_SMALL)} in 3 s"
