"""Series of bounded length whose sums are exact."""

from __future__ import annotations

from random import Random

import pytest

from extender.lab.results import MOST_POINTS
from extender.lab.series import LEVELS, SeriesMaker


def levels(value: float) -> list[float]:
    return [value] * len(LEVELS)


def test_levels_are_means_over_each_step() -> None:
    maker = SeriesMaker()
    maker.pass_to(0.5, levels(0.0))
    maker.count("arrivals")
    maker.pass_to(1.5, levels(8.0))
    first, second = maker.series().points
    assert (first.at, first.gpu_milli, first.arrivals) == (0.0, 4.0, 1)
    assert (second.at, second.gpu_milli, second.arrivals) == (1.0, 8.0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_however_long_it_is_there_are_few_points_and_the_sums_stay_exact(seed: int) -> None:
    random, maker, total, events = Random(seed), SeriesMaker(), 0.0, 0
    at = 0.0
    for _ in range(500):
        level, passed = float(random.randrange(10)), random.choice((0.0, 0.25, 1.0, 10.0, 5000.0))
        at += passed
        total += level * passed
        maker.pass_to(at, levels(level))
        maker.count("ends")
        events += 1
    series = maker.series()
    assert 0 < len(series.points) <= MOST_POINTS
    assert series.step * MOST_POINTS >= at
    assert maker.totals[0] == pytest.approx(total)
    widths = [min(series.step, at - point.at) for point in series.points]
    assert sum(p.gpu_milli * w for p, w in zip(series.points, widths, strict=True)) == pytest.approx(total)
    assert sum(point.ends for point in series.points) == events
