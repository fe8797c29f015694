"""The exact workload on which the speed of Knative's vpod scheduler was recorded, and what was recorded.

A set with so many pods, so many vpods that want 1 to `most` vreplicas each, and room for all of that at once. Every
number comes from one generator with a seed of the size, in the order: what each vpod wants at first; which vpods are
scheduled again without a change; which ones want another number, and which.

`original.json` has CPU microseconds per call of the original (Go, all threads, no logging, the least of three runs),
and the digest of all placements after the last step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

#: Calls of a step that follows the first: fewer with many vpods, as for the original.
CALLS, CALLS_WITH_MANY, MANY = 2000, 300, 1000
#: Runs of the autoscaler.
RUNS = 30


class Size(NamedTuple):
    """How many vpods and pods there are, and how many vreplicas a vpod wants at most."""

    vpods: int
    pods: int
    most: int

    @property
    def capacity(self) -> int:
        return -(-self.vpods * self.most // self.pods)

    @property
    def calls(self) -> int:
        return CALLS_WITH_MANY if self.vpods >= MANY else CALLS

    def __str__(self) -> str:
        return f"{self.vpods:,} vpods x {self.pods} pods x 1..{self.most}"


class Recorded(NamedTuple):
    """What the original took: CPU microseconds per call, by step; and its placements at the end."""

    steps: Mapping[str, float]
    digest: str
    total: int


class Draws:
    """The generator. `next(m)` is a number from 1 to m."""

    def __init__(self, size: Size) -> None:
        self._state = size.vpods * 1_000_003 + size.pods * 1009 + size.most

    def next(self, most: int) -> int:
        self._state = (1_103_515_245 * self._state + 12_345) % 2**31
        return 1 + (self._state >> 8) % most


@cache
def recorded() -> Mapping[Size, Recorded]:
    """Every size of which there is a recording, smaller ones first."""
    rows = json.loads((Path(__file__).parent / "original.json").read_bytes())
    steps = ("initial", "no_change", "churn", "autoscaler")
    return {
        Size(row["vpods"], row["pods"], row["most"]): Recorded(
            {step: row[step] for step in steps}, row["digest"], row["sum"]
        )
        for row in rows
    }


def digest(placements: Mapping[str, Iterable[tuple[str, int]]]) -> str:
    """Of the placements of all vpods, by key."""
    text = sha256()
    for key in sorted(placements):
        text.update((key + "".join(f"|{pod}={number}" for pod, number in placements[key]) + "\n").encode())
    return text.hexdigest()[:16]
