"""Means and roundings against those of numpy 1.24 and pandas 2.0, which are written here as these print them."""

from __future__ import annotations

import pytest

from extender.lab.published_numbers import mean, rounded


@pytest.mark.parametrize(
    ("count", "start", "step", "bits", "printed"),
    [
        (2, 5758, 1, "0x1.ccae147ae147bp+5", 57.58),  # the others: `sum` and `round` of Python print 57.59,
        (4, 8445, 7, "0x1.52c7ae147ae14p+6", 84.7),  # 84.69,
        (8, 8537, 4, "0x1.56570a3d70a3ep+6", 85.58),  # 85.59,
        (10, 1798, 1, "0x1.243d70a3d70a4p+4", 18.26),  # 18.27
    ],
)
def test_a_mean_between_two_numbers_is_rounded_as_published(
    count: int, start: int, step: int, bits: str, printed: float
) -> None:
    found = mean([(start + step * i * i % 97) / 100 for i in range(count)])
    assert found is not None
    assert found.hex() == bits
    assert rounded(found) == printed


@pytest.mark.parametrize(
    ("count", "bits"),
    [
        (1, "0x1.4000000000000p+3"),
        (7, "0x1.4428f5c28f5c2p+3"),
        (9, "0x1.4740da740da74p+3"),
        (100, "0x1.ca43fe5c91d14p+3"),
        (128, "0x1.cdf851eb851ecp+3"),
        (129, "0x1.cdf0eaf6df0eap+3"),
        (300, "0x1.db4309b1a13efp+3"),
        (2000, "0x1.dee40639d5e4ap+3"),
    ],
)
def test_long_sequences_are_added_in_the_order_of_numpy(count: int, bits: str) -> None:
    found = mean([(1000 + i * i % 997) / 100 for i in range(count)])
    assert found is not None
    assert found.hex() == bits


def test_nothing_has_no_mean() -> None:
    assert mean([]) is None
