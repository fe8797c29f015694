"""A slice of what the adversary of HiveD does, and proof that it notices what is broken."""

from __future__ import annotations

import pytest

from tests.conformance.adversary.search import attempt, shortened, steps_of
from tests.conformance.test_hived_mutations import (
    Patch,
    a_copy_shares_the_groups,
    a_trial_is_not_taken_back,
    pods_are_recovered_one_by_one,
    victims_are_overlooked,
)

#: The adversary notices others, too, but later: `reserved_devices_count_as_free` after 30 runs.
NOTICED = (
    a_copy_shares_the_groups,
    a_trial_is_not_taken_back,
    victims_are_overlooked,
    pytest.param(pods_are_recovered_one_by_one, marks=pytest.mark.slow),
)

#: Runs that failed once, with their lengths.
FOUND = (
    # The promise was reduced to one of two equally important gangs, and then the oldest pod of that gang ended.
    (3195816705, 150),
)


def assert_holds(seed: int, length: int) -> None:
    outcome = attempt(seed, steps_of(seed, length))
    text = f"attempt({seed}, steps_of({seed}, {length})), step {outcome.steps}, at {outcome.where}: {outcome.error}"
    assert not outcome.error, text


@pytest.mark.parametrize("seed", [2, 3])
def test_every_promise_is_kept(seed: int) -> None:
    assert_holds(seed, 50)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "length"), FOUND)
def test_what_was_found_once_stays_mended(seed: int, length: int) -> None:
    assert_holds(seed, length)


@pytest.mark.slow
def test_every_promise_is_kept_for_longer() -> None:
    for seed in range(100, 110):
        assert_holds(seed, 150)


@pytest.mark.parametrize("mutate", NOTICED)
def test_what_is_broken_is_noticed(monkeypatch: pytest.MonkeyPatch, mutate: Patch) -> None:
    mutate(monkeypatch)
    assert any(attempt(seed, steps_of(seed, 150)).error for seed in range(60))


@pytest.mark.slow
def test_a_failure_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    victims_are_overlooked(monkeypatch)
    seed = next(seed for seed in range(60) if attempt(seed, steps_of(seed, 60)).error)
    found = attempt(seed, steps_of(seed, 60))
    fewer = shortened(seed, steps_of(seed, 60), 60)
    assert len(fewer) < found.steps
    assert attempt(seed, fewer).where == found.where
