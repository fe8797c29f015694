"""How far a bounded number of moves leads."""

from __future__ import annotations

from algorithm.placements.model import Counts


def number_of_moves(now: Counts, goal: Counts) -> int:
    """How many vreplicas leave a pod for another one: not those that are more than are wanted."""
    leaving = sum(max(0, number - goal.get(ordinal, 0)) for ordinal, number in now.items())
    return leaving - max(0, sum(now.values()) - sum(goal.values()))


def on_the_way(now: Counts, goal: Counts, moves: int) -> dict[int, int]:
    """How far from `now` to `goal` so many moves lead, with what has to be added or taken away.

    No pod gets more than it has, or than it is to have.
    """
    here = dict.fromkeys(goal, 0) | dict(now)
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
