"""Go's generator: numbers that a Go program prints for these seeds."""

from __future__ import annotations

from collections import Counter

from extender.lab.gorand import GoRandom


def test_the_first_numbers_of_a_seed_are_gos() -> None:
    """`rand.New(rand.NewSource(42)).Int63()`, twice; and the first of seed 1, Go's default for years."""
    random = GoRandom(42)
    assert [random.int63(), random.int63()] == [3440579354231278675, 608747136543856411]
    assert GoRandom(1).int63() == 5577006791947779410


def test_numbers_are_below_their_bound_and_all_of_them_come() -> None:
    random = GoRandom(7)
    for bound in (1, 2, 5, 8, 1213):
        drawn = Counter(random.below(bound) for _ in range(20 * bound))
        assert set(drawn) <= set(range(bound))
        assert len(drawn) >= 0.9 * bound


def test_a_shuffle_and_a_permutation_lose_nothing_and_repeat() -> None:
    items = list(range(100))
    GoRandom(3).shuffle(items)
    again = list(range(100))
    GoRandom(3).shuffle(again)
    assert items == again != sorted(items)
    assert sorted(items) == list(range(100))
    assert sorted(GoRandom(3).permutation(100)) == list(range(100))
