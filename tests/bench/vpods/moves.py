"""How many vreplicas leave their pods: when another replica leads, and when the set gets a pod more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.bench.vpods.fleet import Fleet
from tests.bench.vpods.workload import Draws, Size


@dataclass(frozen=True)
class Moves:
    """`minimum`: the fewest moves to where no vpod's numbers differ by more than 1. `uneven`: vpods that are not so."""

    policy: str
    vreplicas: int
    after_leader: int
    after_pod: int
    minimum: int
    uneven: int


def measure(policy: str, *, vpods: int = 1000, pods: int = 50, most: int = 200) -> Moves:
    """With one pod less than `pods` at first, which is added in the end."""
    size = Size(vpods, pods, most)
    draws = Draws(size)
    wanted = [draws.next(most) for _ in range(vpods)]
    fleet = Fleet(pods=pods - 1, capacity=size.capacity * 2, policy=policy, wanted=wanted)
    fleet.start()
    fleet.moves = 0
    fleet.start()
    after_leader, fleet.moves = fleet.moves, 0
    minimum = sum(fewest_moves(_numbers(vpod.placements), pods) for vpod in fleet.vpods)
    fleet.add_pod()
    uneven = sum(fewest_moves(_numbers(vpod.placements), pods) > 0 for vpod in fleet.vpods)
    return Moves(policy, sum(wanted), after_leader, fleet.moves, minimum, uneven)


def _numbers(placements: Iterable[tuple[str, int]]) -> list[int]:
    return [number for _, number in placements]


def fewest_moves(numbers: Iterable[int], pods: int) -> int:
    """How many vreplicas of one vpod must move until its numbers on so many pods differ by 1 at most.

    Each pod ends with the average, rounded down or up. Where it is rounded up is free: best on the pods with the most.
    """
    held = sorted(numbers, reverse=True)
    least, larger = divmod(sum(held), pods)
    return sum(max(0, number - least - (place < larger)) for place, number in enumerate(held))
