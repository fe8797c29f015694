"""A short slice of `make soak`: every pair of operation and fault by itself, some mixtures, and exact repetition."""

from __future__ import annotations

import pytest

from tests.soak.links import pairs
from tests.soak.world import run


@pytest.mark.parametrize("pair", pairs(), ids=": ".join)
def test_every_operation_survives_every_fault(pair: tuple[str, str]) -> None:
    survived = sum((run(seed, 250, rate=0.5, only=pair).faults[": ".join(pair)] for seed in (1, 2)), 0)
    assert survived > 0, "the fault never struck"


@pytest.mark.parametrize("seed", range(100, 108))
def test_mixtures_of_faults_and_crashes_are_survived(seed: int) -> None:
    assert run(seed, 500, rate=0.15).bound > 0


def test_one_seed_is_one_run() -> None:
    assert run(7, 400) == run(7, 400)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_long_mixtures_are_survived(seed: int) -> None:
    run(seed, 3000)
