"""How long the engine takes from the first lists to a decision about every vpod, when nothing has to be done."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.vpods.fleet import Fleet
from tests.bench.vpods.workload import Draws, Size


@dataclass(frozen=True)
class Start:
    """CPU seconds. `writes`: statuses that were written, 0 where nothing had to be done."""

    vpods: int
    pods: int
    seconds: float
    writes: int


def measure(*, vpods: int = 10_000, pods: int = 500, most: int = 20, rounds: int = 3) -> Start:
    """The best of so many starts, with vpods that are placed already."""
    size = Size(vpods, pods, most)
    draws = Draws(size)
    wanted = [draws.next(most) for _ in range(vpods)]
    fleet = Fleet(pods=pods, capacity=size.capacity, policy="balanced", wanted=wanted)
    fleet.start()
    times = []
    fleet.writes = 0
    for _ in range(rounds):
        fleet.decided = fleet.confirmed = 0.0
        fleet.start()
        times.append(fleet.decided + fleet.confirmed)
    return Start(vpods, pods, min(times), fleet.writes)
