"""How far a bounded number of moves leads."""

from __future__ import annotations

from algorithm.placements.model import Counts


def number_of_moves(now: Counts, goal: Counts) -> int:
    """How many vreplicas leave a pod for another one: not those that are more than are wanted."""
    leaving = sum(max(0, number - goal.get(ordinal, 0)) for ordinal, number in now.items())
    return leaving - max(0, sum(now.values()) - sum(goal.values()))


def on_the_way(now: Counts, goal: Counts, moves: int) -> dict[int, int]:
    """How far from `now` to `goal` so many moves lead, with what has to be added or taken away.

    No pod gets more than it has, or than it is to have. Vreplicas leave one by one the pod that is furthest above its
    goal, and come to the one that is furthest below. The cost does not grow with their number.
    """
    here = dict.fromkeys(goal, 0) | dict(now)
    surplus = sum(here.values()) - sum(goal.values())
    _change(here, goal, -surplus)
    _change(here, goal, -moves)
    _change(here, goal, moves)
    return here


def _change(here: dict[int, int], goal: Counts, number: int) -> None:
    """Give so many vreplicas to the pods that are furthest below their goals, one by one; if negative, take so many
    from those that are furthest above. Of equal ones the pod with fewer, then the lower ordinal, gets one first."""
    sign, left = (1, number) if number > 0 else (-1, -number)
    lacks = sorted(
        ((sign * (goal.get(o, 0) - count), -sign * count, -sign * o, o) for o, count in here.items()), reverse=True
    )
    if not left or not lacks:
        return
    # The first `reached` pods come down to one level of what they lack; some of them, the first ones, one further.
    level, reached = lacks[0][0], 1
    while reached < len(lacks) and (level - lacks[reached][0]) * reached <= left:
        left -= (level - lacks[reached][0]) * reached
        level = lacks[reached][0]
        reached += 1
    level -= left // reached
    left %= reached
    for lack, _, _, ordinal in lacks[:reached]:
        here[ordinal] += sign * (lack - level)
    first = sorted(lacks[:reached], key=lambda each: (sign * here[each[3]], sign * each[3]))
    for *_, ordinal in first[:left]:
        here[ordinal] += sign
