"""How a run is held against the aims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.attacks.aims import Figures, Usage, missed, percentile

CALM = Figures(
    latencies=(0.002,) * 300,
    errors=(),
    before=Usage(90, 20, 10),
    peak_mib=120,
    after=Usage(95, 21, 12),
    log_bytes=100,
    seconds=3,
)


def test_a_calm_run_misses_nothing() -> None:
    assert missed(CALM) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"latencies": (0.002,) * 96 + (0.2,) * 4}, "a valid /filter took 200 ms at p99 (aim 100)"),
        ({"latencies": ()}, "no valid /filter was answered"),
        ({"errors": ("ConnectionResetError: gone",)}, "1 valid /filter failed, the first: ConnectionResetError: gone"),
        ({"peak_mib": 600}, "600 MiB resident (aim 512)"),
        ({"after": Usage(200, 20, 10)}, "110 MiB stayed behind (aim 64)"),
        ({"after": Usage(90, 60, 10)}, "40 file descriptors stayed behind"),
        ({"after": Usage(90, 20, 100)}, "90 threads stayed behind"),
    ],
)
def test_each_aim_is_told_when_it_is_missed(changes: dict[str, object], said: str) -> None:
    assert missed(replace(CALM, **changes)) == [said]


def test_one_late_call_in_a_hundred_is_within_p99() -> None:
    assert missed(replace(CALM, latencies=(0.002,) * 99 + (5.0,))) == []


@pytest.mark.parametrize(("share", "value"), [(0.01, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, value: int) -> None:
    assert percentile(tuple(range(100, 0, -1)), share) == value
