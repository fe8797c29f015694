"""Means and rounded numbers to the last bit as in the published results of `fgd`'s experiment.

These were made with pandas 2.0 on numpy 1.24. The mean of numbers with two decimals often lies halfway between two such
numbers. The order in which they are added, and the way of rounding, then decide the last printed digit. Python's `sum`
and `round` decide otherwise in a column of some runs, and `sum` not even alike in Python 3.11 and 3.12.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Numbers that are added in lanes side by side, and how many lanes there are.
_BLOCK, _LANES = 128, 8


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return _sum(values) / len(values) if values else None


def rounded(value: float) -> float:
    """Return the number with two decimals, as `numpy.round` does: half to even after multiplication by 100."""
    return round(value * 100) / 100


def _sum(values: Sequence[float]) -> float:
    """Add in the order of numpy: halves of long sequences, eight lanes of short ones, then what is left over."""
    count = len(values)
    if count > _BLOCK:
        half = count // 2 - count // 2 % _LANES
        return _sum(values[:half]) + _sum(values[half:])
    whole = count - count % _LANES
    total = 0.0
    if whole:
        a, b, c, d, e, f, g, h = (_one_by_one(values[lane:whole:_LANES]) for lane in range(_LANES))
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    return _one_by_one(values[whole:], total)


def _one_by_one(values: Sequence[float], total: float = 0.0) -> float:
    for value in values:  # not `sum`, which corrects its rounding errors since Python 3.12
        total += value
    return total
