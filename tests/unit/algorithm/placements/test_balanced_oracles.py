"""`balanced` against the best placement there is, of random sets: found by trying all, or by a flow of least cost.

Pods of these sets cannot be used, rest, hold too much, or are in up to four zones; vpods want distinct pods, and
at most so many vreplicas on each. Some hundred sets of each kind in `make test`, ten thousand in the slow run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from algorithm.placements.balanced import place
from algorithm.placements.model import SetState, VPodState
from tests.support.placements.flow import best_rate
from tests.support.placements.states import Question, Rate, counts_of, question, random_state

SMALL = {"pods": 6, "wanted": 12, "capacity": 8}
LARGE = {"pods": 16, "wanted": 40, "capacity": 12}
#: Large enough for room and zones to matter at many pods; few of them, since the flow takes a while.
HUGE = {"pods": 60, "wanted": 200, "capacity": 30}


def placements(number: int, rooms: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to put a number on pods with so much room."""
    if not rooms:
        if not number:
            yield ()
        return
    for first in range(min(number, rooms[0]) + 1):
        for rest in placements(number - first, rooms[1:]):
            yield first, *rest


def best_of_all(asked: Question) -> Rate:
    return min(map(asked.rate, placements(asked.placeable, asked.room)))


def check(state: SetState, vpod: VPodState, asked: Question, best: Rate) -> None:
    placement = place(vpod, state)
    counts = counts_of(state, placement.counts)
    assert placement.left == asked.wanted - asked.placeable == asked.wanted - sum(counts)
    assert all(count <= room for count, room in zip(counts, asked.room, strict=True)), (asked, counts)
    assert asked.rate(counts) == best, (asked, counts)
    assert placement.moves == best[-1] - asked.forced, (asked, counts)


def check_rounds(state: SetState, vpod: VPodState, asked: Question, best: Rate, most: int) -> None:
    """Rounds of at most so many moves end at the same balance, after as many moves in all as at once."""
    moved = 0
    for _ in range(best[-1] // max(1, most) + 2):
        before = question(state, vpod)
        placement = place(vpod, state, most_moves=most)
        counts = counts_of(state, placement.counts)
        made = before.rate(counts)[-1]
        assert made - before.forced == placement.moves <= most, (before, counts)
        assert sum(counts) == asked.placeable
        moved += made
        state.put(vpod.key, vpod.wanted, placement.counts, spread=vpod.spread, max_per_pod=vpod.max_per_pod)
        if not placement.postponed:
            break
    assert (*asked.rate(counts)[:-1], moved) == best, (asked, counts)
    assert place(vpod, state, most_moves=most).counts == vpod.committed, "it does not come to rest"


def run(seed: int, number: int, limits: dict[str, int], oracle: str) -> None:
    chance = Random(seed)
    for _ in range(number):
        state, vpod = random_state(chance, **limits)
        asked = question(state, vpod)
        best = best_of_all(asked) if oracle == "all" else best_rate(asked)
        check(state, vpod, asked, best)
        if max(state.held.values(), default=0) <= state.capacity:  # else each look asks for a part of what is too much
            check_rounds(state, vpod, asked, best, chance.randint(1, 3))


def test_the_oracles_agree() -> None:
    chance = Random(3)
    for _ in range(200):
        asked = question(*random_state(chance, **SMALL))
        assert best_rate(asked) == best_of_all(asked), asked


def test_a_flow_gives_the_optimum_of_an_example() -> None:
    """Four on three pods of two zones: 2 and 2, of which one has moved."""
    assert best_rate(Question(4, 0, has=[3, 1, 0], room=[5, 5, 5], zones=["a", "b", "b"])) == (0, 8, 6, 1)


def test_small_sets() -> None:
    run(11, 400, SMALL, "all")


def test_large_sets() -> None:
    run(12, 300, LARGE, "flow")


def test_huge_sets() -> None:
    run(13, 20, HUGE, "flow")


@pytest.mark.slow
def test_ten_thousand_small_sets() -> None:
    run(14, 10_000, SMALL, "all")


@pytest.mark.slow
def test_ten_thousand_large_sets() -> None:
    run(15, 10_000, LARGE, "flow")


@pytest.mark.slow
def test_many_huge_sets() -> None:
    run(16, 300, HUGE, "flow")
