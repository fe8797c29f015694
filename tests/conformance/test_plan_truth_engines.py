"""A plan says what then happens where other engines take part (claims, vpods, start-up ordering), and where options
change the cluster.

`python -m tests.conformance.plan_truth --world claims --first 1000 --states 50` runs more states than the tests.
"""

from __future__ import annotations

import pytest

from tests.conformance.plan_truth.worlds import WORLDS


def wrong(world: str, seeds: range) -> list[str]:
    """What plans are wrong about."""
    return [f"seed {seed}: {text}" for seed in seeds for text in WORLDS[world](seed)]


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 8), marks=pytest.mark.slow)], ids=["few", "more"])
def test_a_plan_with_an_option_says_what_happens_if_the_change_is_made(seeds: range) -> None:
    """Options: --settings, --algorithm, --priority, --delete, --cordon, --drain, --add-nodes."""
    assert wrong("what-if", seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", [1000, 1050])
def test_a_plan_with_an_option_says_what_happens_in_many_states(first: int) -> None:
    assert wrong("what-if", range(first, first + 50)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("world", "states"), [("claims", 2), ("vpods", 1), ("jobs", 2)])
def test_a_plan_says_what_the_other_engines_then_do(world: str, states: int) -> None:
    """With sockets and threads, so a run takes seconds; most of them are spent waiting."""
    assert wrong(world, range(states)) == []
