"""A bounded number of moves on the way to a goal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from algorithm.placements.moves import number_of_moves, on_the_way

counts = st.dictionaries(st.integers(0, 6), st.integers(0, 9), max_size=6)


def one_by_one(now: dict[int, int], goal: dict[int, int], moves: int) -> dict[int, int]:
    """What `on_the_way` promises, word for word."""
    here = dict.fromkeys(goal, 0) | now
    surplus = sum(here.values()) - sum(goal.values())

    def above(ordinal: int) -> tuple[int, int, int]:
        return here[ordinal] - goal.get(ordinal, 0), here[ordinal], ordinal

    for _ in range(max(0, surplus)):
        here[max(here, key=above)] -= 1
    for _ in range(max(0, -surplus)):
        here[min(here, key=above)] += 1
    for _ in range(moves):
        here[max(here, key=above)] -= 1
        here[min(here, key=above)] += 1
    return here


@given(now=counts, goal=counts, part=st.floats(0, 1))
def test_it_is_as_if_they_moved_one_by_one(now: dict[int, int], goal: dict[int, int], part: float) -> None:
    moves = int(part * number_of_moves(now, goal))
    assert on_the_way(now, goal, moves) == one_by_one(now, goal, moves)


def test_millions_cost_no_more_than_a_few() -> None:
    """One by one this would take days."""
    now, goal = dict.fromkeys(range(1000), 2**31), dict.fromkeys(range(1000), 2**20)
    assert on_the_way(now, goal, 0) == goal
    assert on_the_way(goal, now, 0) == now
    assert sum(on_the_way({0: 2**40}, dict.fromkeys(range(1024), 2**30), 10**6).values()) == 2**40
