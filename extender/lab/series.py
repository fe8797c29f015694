"""A bounded series of what a cluster looks like over time: means over equal steps.

What is true between two moments is added to the steps that it overlaps. When there are more steps than may be, each two
neighbours become one, so the sums stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from extender.lab.results import MOST_POINTS, Point, Series

_N = TypeVar("_N", int, float)
#: The first step, seconds.
_FIRST = 1.0
#: Values that are means over time, and values that are counts, in the order of `Point`.
LEVELS = (
    "gpu_milli",
    "gpu_allocated_milli",
    "gpu_running_milli",
    "gpu_fragmented_milli",
    "cpu_milli",
    "cpu_allocated_milli",
    "cpu_running_milli",
    "waiting_jobs",
    "waiting_pods",
    "running_jobs",
    "nodes",
)
COUNTS = ("arrivals", "ends", "evictions", "failures")


class SeriesMaker:
    """Takes levels over time and counts; `totals` are the exact integrals of the levels."""

    def __init__(self) -> None:
        self.step = _FIRST
        self.totals = [0.0] * len(LEVELS)
        self._levels: list[list[float]] = []
        self._counts: list[list[int]] = []
        self.until = 0.0

    def pass_to(self, to: float, levels: Sequence[float]) -> None:
        """The levels were these until `to`."""
        at = self.until
        if to <= at:
            return
        self.until = to
        passed = to - at
        for number, level in enumerate(levels):
            self.totals[number] += level * passed
        while to > self.step * MOST_POINTS:
            self._halve()
        last = int(to / self.step)
        self._extend(last)
        index = int(at / self.step)
        while at < to:
            end = min(to, (index + 1) * self.step)
            row, share = self._levels[index], end - at
            for number, level in enumerate(levels):
                if level:
                    row[number] += level * share
            at, index = end, index + 1

    def count(self, name: str, number: int = 1) -> None:
        """Count what happens now."""
        index = min(int(self.until / self.step), MOST_POINTS - 1)
        self._extend(index)
        self._counts[index][COUNTS.index(name)] += number

    def _extend(self, last: int) -> None:
        while len(self._levels) <= last:
            self._levels.append([0.0] * len(LEVELS))
            self._counts.append([0] * len(COUNTS))

    def _halve(self) -> None:
        self.step *= 2
        self._levels = [_sums(self._levels[at : at + 2]) for at in range(0, len(self._levels), 2)]
        self._counts = [_sums(self._counts[at : at + 2]) for at in range(0, len(self._counts), 2)]

    def series(self) -> Series:
        """Return what was taken so far."""
        points = []
        for index, (levels, counts) in enumerate(zip(self._levels, self._counts, strict=True)):
            at = index * self.step
            share = min(self.step, self.until - at)
            if share <= 0 and not any(counts):
                continue
            means = {name: level / share if share > 0 else 0.0 for name, level in zip(LEVELS, levels, strict=True)}
            points.append(msgspec.convert({"at": at, **means, **dict(zip(COUNTS, counts, strict=True))}, Point))
        return Series(self.step, tuple(points))


def _sums(rows: Sequence[list[_N]]) -> list[_N]:
    return [a + b for a, b in zip(*rows, strict=True)] if len(rows) == 2 else rows[0]
