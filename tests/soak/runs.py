"""Runs of the simulation: one seed, or one pair of operation and fault until it has struck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from structlog.testing import capture_logs

from extender.server import cache_comparer as comparer
from tests.soak.wire import Name
from tests.soak.world import SoakWorld


@dataclass
class Result:
    """What a run came to."""

    seed: int
    steps: int
    #: Crashes, pauses and partitions.
    happened: Counter[str] = field(default_factory=Counter)
    faults: Counter[Name] = field(default_factory=Counter)
    bound: int = 0
    #: Of everything that every engine heard and said.
    digest: str = ""


#: Operations so seldom that nearly every one of them has to fail.
_RARE = ("evict", "mark preemption", "version of nodes", "version of pods")
#: Seeds that a pair gets for its fault to strike.
_TRIES = 20


def run_pair(pair: Name, seed: int, steps: int) -> list[Result]:
    """Runs in which nothing but this goes wrong, until it has struck. Raises AssertionError, also if it never does."""
    results: list[Result] = []
    while not results or not results[-1].faults[pair]:
        assert len(results) < _TRIES, f"{pair} never struck"
        results.append(run(seed + len(results), steps, rate=0.9 if pair[0] in _RARE else 0.5, only=pair))
    return results


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Silent, and with one reader, so that the comparer's threads take no turns."""
    with capture_logs(), mock.patch.object(comparer, "_READERS", 1):
        yield


def run(seed: int, steps: int, *, rate: float = 0.1, only: Name | None = None) -> Result:
    """One run with its checks. Raises AssertionError; the same arguments give the same run again, exactly."""
    with in_one_thread():
        world = SoakWorld(seed, rate=rate, only=only)
        for _ in range(steps):
            world.step()
            world.check()
        world.settle()
    digest = world.digest.hexdigest()[:16]
    return Result(seed, world.steps, world.happened, world.draws.counts, len(world._checks.placed), digest)
