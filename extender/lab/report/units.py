"""Numbers as people read them: durations, shares, counts, and the round numbers of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import floor, log10

#: Units of time, the largest first: the seconds from which each is used, and its sign.
_UNITS = ((2 * 86_400, 86_400, "d"), (2 * 3600, 3600, "h"), (2 * 60, 60, "min"), (0, 1, "s"))
#: Places of a logarithmic axis of time, seconds, and what stands there.
DECADES = ((1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36_000, "10 h"), (345_600, "4 d"))
LONG_DECADES = ((3_456_000, "40 d"), (34_560_000, "400 d"), (3.456e8, "4,000 d"), (3.456e9, "40,000 d"))


def duration(seconds: float) -> str:
    """Return 45 s, 3.2 min, 2.1 h or 4.0 d."""
    _, size, sign = next(unit for unit in _UNITS if seconds >= unit[0] or unit[0] == 0)
    value = seconds / size
    return f"{value:.0f} {sign}" if _has_no_digit(value) else f"{value:.1f} {sign}"


def share(value: float) -> str:
    """Return a share in per cent."""
    return f"{value:.1%}".replace("%", " %")


def count(value: float) -> str:
    """Return a number with separators; with a digit after the point if it is small and no whole one."""
    return f"{value:,.0f}" if _has_no_digit(value) else f"{value:,.1f}"


def _has_no_digit(value: float) -> bool:
    """Whether no digit after the point is shown; so what is nearly nothing looks like nothing, and ties with it."""
    return value >= 100 or value == int(value) or value < 0.05


def gpu_hours(milli_seconds: float) -> str:
    """Return GPU hours."""
    return f"{count(milli_seconds / 3_600_000)} h"


def ticks(most: float, about: int = 4) -> list[float]:
    """Return round numbers from 0 on, evenly spaced; the last one is not below `most`."""
    if not most > 0:
        return [0.0, 1.0]
    rough = most / about
    power = 10.0 ** floor(log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * (1 - 1e-9))
    found = [0.0]
    while found[-1] < most * (1 - 1e-9):
        found.append(step * len(found))
    return found


def time_unit(span: float) -> tuple[float, str]:
    """Return the seconds and the name of the unit that suits an axis of time."""
    for _, size, _ in _UNITS:
        if span >= 3 * size:
            return float(size), {86_400: "days", 3600: "hours", 60: "minutes", 1: "seconds"}[size]
    return 1.0, "seconds"


def thinned(values: Sequence[float], most: int) -> list[float]:
    """Return means of neighbours, so that at most so many values are left."""
    if len(values) <= most:
        return list(values)
    edges = [round(place * len(values) / most) for place in range(most + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
