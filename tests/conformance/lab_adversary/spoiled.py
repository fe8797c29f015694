"""Recordings that somebody has spoiled, from docs/record.md alone: a log is a line of JSON for each event."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any


def _leaves(value: Any) -> list[tuple[Any, Any]]:
    """Return where the texts and numbers in this value are: the object or list, and the key or index there."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [
        found for key, part in parts for found in (_leaves(part) if isinstance(part, dict | list) else [(value, key)])
    ]


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return "x" if value is None else value[:-1] or "x"


def _altered(lines: list[bytes], random: Random, field: str) -> bytes:
    while True:
        number = random.randrange(1, len(lines))
        event = json.loads(lines[number])
        places = _leaves(event.get(field))
        if places:
            where, key = random.choice(places)
            where[key] = _other(where[key])
            lines[number] = json.dumps(event).encode() + b"\n"
            return b"".join(lines)


def answer(lines: list[bytes], random: Random) -> bytes:
    """Change one text or number of an answer."""
    return _altered(lines, random, "out")


def event(lines: list[bytes], random: Random) -> bytes:
    """Change one text or number of an event."""
    return _altered(lines, random, "data")


def swapped(lines: list[bytes], random: Random) -> bytes:
    one, other = random.sample(range(1, len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def doubled(lines: list[bytes], random: Random) -> bytes:
    lines.insert(random.randrange(len(lines)), random.choice(lines))
    return b"".join(lines)


def deleted(lines: list[bytes], random: Random) -> bytes:
    # Not the last one: a log without it is that of a server that still runs.
    del lines[random.randrange(len(lines) - 1)]
    return b"".join(lines)


def truncated(lines: list[bytes], random: Random) -> bytes:
    text = b"".join(lines)
    if random.random() < 0.5:
        text = gzip.compress(text)
    return text[: random.randrange(len(text))]


def flipped(lines: list[bytes], random: Random) -> bytes:
    text = bytearray(b"".join(lines))
    if random.random() < 0.5:
        text = bytearray(gzip.compress(text))
    for _ in range(random.randint(1, 3)):
        text[random.randrange(len(text))] ^= 1 << random.randrange(8)
    return bytes(text)


#: Each way to spoil a log, with what `waggle replay` may end with then. 0 is "all the same".
WAYS: dict[Callable[[list[bytes], Random], bytes], set[int]] = {
    answer: {1, 2},
    event: {0, 1, 2},
    swapped: {2},
    doubled: {2},
    deleted: {2},
    truncated: {0, 2},
    flipped: {0, 1, 2},
}
