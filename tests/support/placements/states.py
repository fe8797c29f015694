"""Random sets for one vpod, and how good a placement of it is, by the rules in the head of `balanced` alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from algorithm.placements.model import SetState, VPodState

#: Smaller is better, the first that differs decides: see `Question.rate`.
Rate: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True)
class Question:
    """Where may the vreplicas of one vpod be? Lists are by usable pod. `elsewhere`: on pods that cannot be used."""

    wanted: int
    spread: int
    has: Sequence[int]
    room: Sequence[int]
    zones: Sequence[str]
    elsewhere: int = 0

    @property
    def placeable(self) -> int:
        return min(self.wanted, sum(self.room))

    @property
    def forced(self) -> int:
        """Vreplicas that leave their usable pods in any case, for want of room there or because fewer are wanted."""
        kept = sum(map(min, self.has, self.room))
        return sum(self.has) - kept + max(0, kept - self.placeable)

    def rate(self, counts: Sequence[int]) -> Rate:
        """Missing distinct pods; squares of the numbers in zones, then on pods, since even numbers have the least sum
        of squares; vreplicas that leave a usable pod.
        """
        sums: Counter[str] = Counter()
        for zone, count in zip(self.zones, counts, strict=True):
            sums[zone] += count
        return (
            max(0, self.spread - sum(count > 0 for count in counts)),
            sum(number**2 for number in sums.values()),
            sum(count**2 for count in counts),
            sum(max(0, before - count) for before, count in zip(self.has, counts, strict=True)),
        )


def question(state: SetState, vpod: VPodState) -> Question:
    """What a state asks. A pod that holds too much asks every vpod on it to leave in proportion, rounded up."""
    usable, zones = state.usable, state.zones
    has = [vpod.committed.get(ordinal, 0) for ordinal in usable]
    room = []
    for ordinal, mine in zip(usable, has, strict=True):
        held = sum(each.committed.get(ordinal, 0) for each in state.vpods.values())
        over = held - state.capacity
        most = mine - -(-over * mine // held) if over > 0 else mine - over
        if vpod.max_per_pod:
            most = min(most, vpod.max_per_pod)
        room.append(min(most, mine) if ordinal in state.resting else most)
    elsewhere = sum(number for ordinal, number in vpod.committed.items() if not state.is_usable(ordinal))
    return Question(vpod.wanted, vpod.spread, has, room, [zones.get(o, "") for o in usable], elsewhere)


def counts_of(state: SetState, counts: Mapping[int, int]) -> list[int]:
    assert counts.keys() <= {*state.usable}, f"{dict(counts)} has pods that cannot be used; usable: {state.usable}"
    return [counts.get(ordinal, 0) for ordinal in state.usable]


def random_state(chance: Random, *, pods: int, wanted: int, capacity: int) -> tuple[SetState, VPodState]:
    """A set of at most so many pods, and a vpod that wants at most so many vreplicas.

    Some pods cannot be used, rest, hold others' vreplicas, or more than they can.
    """
    number, most = chance.randint(1, pods), chance.randint(1, capacity)
    state = SetState(capacity=most, replicas=number)
    zones = chance.randint(1, 4)
    for ordinal in range(number):
        state.set_usable(ordinal, chance.random() < 0.85)
        state.set_zone(ordinal, f"z{chance.randrange(zones)}" if zones > 1 else "")
        if state.is_usable(ordinal) and chance.random() < 0.1:
            state.resting.add(ordinal)
    crowd = chance.choice([0.0, 0.3, 1.0])
    others = {o: chance.randint(0, most) for o in range(number) if chance.random() < crowd}
    mine = _random_counts(chance, chance.randint(0, wanted), number)
    if chance.random() < 0.8:  # else some pods hold too much
        mine = {o: min(count, most - others.get(o, 0)) for o, count in mine.items()}
    state.put("ns/other", sum(others.values()), others)
    vpod = state.put(
        "ns/v",
        chance.choice([sum(mine.values()), chance.randint(0, wanted)]),
        {o: count for o, count in mine.items() if count},
        spread=chance.choice([0, 0, 0, chance.randint(0, pods)]),
        max_per_pod=chance.choice([0, 0, 0, chance.randint(1, 5)]),
    )
    state.validate()
    return state, vpod


def _random_counts(chance: Random, total: int, pods: int) -> dict[int, int]:
    """Anything from even to all on one pod."""
    favoured = chance.sample(range(pods), chance.randint(1, pods))
    return dict(Counter(chance.choice(favoured) for _ in range(total)))
