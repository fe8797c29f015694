"""`head`: Knative eventing's scheduler as its main branch was in 2026, decision by decision.

It keeps the vreplicas that a vpod has, removes from the highest ordinals, and adds one vreplica to each candidate in
turn. It gives users who move from Knative the same placements at first, with the original's faults: growth in small
steps piles up on the lowest pod, and shrinking never evens out. `balanced` has none of these faults.

Source: knative/eventing pkg/scheduler/statefulset, by behaviour (recorded answers, tests/conformance).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from algorithm.placements.model import Counts, Placement, SetState, VPodState


def place(vpod: VPodState, state: SetState, *, least: int = 0, watched: int | None = None) -> Placement:
    """Place a vpod, starting from its reservation.

    `least` is the original's minReplicas: a vpod that wants fewer gets as many, at most one per usable pod. `watched`
    is how many replicas a watch says, where that differs from `state.replicas`.
    """
    # The original starts from its reservations only, and forgets at a restart what is committed.
    start = vpod.placed if state.seeded else vpod.reserved or {}
    kept, given = _kept(start, vpod.max_per_pod, state)
    target = vpod.wanted
    if least > target:
        target = max(target, min(least, len(state.usable)))
    missing = target - sum(kept.values())
    if missing < 0:
        take_away(kept, -missing)
    elif missing > 0 and state.replicas > 0:
        limit = state.replicas if watched is None else watched
        candidates = _candidates(start, kept, state, limit)
        missing = _add(kept, missing, _rooms(candidates, kept, vpod, state, given))
    return Placement({ordinal: kept[ordinal] for ordinal in sorted(kept)}, max(0, missing))


def _kept(reserved: Counts, most: int, state: SetState) -> tuple[dict[int, int], dict[int, int]]:
    """What stays of a reservation, and what that gave back, by ordinal.

    Pods that cannot be used keep nothing. On a pod that holds too much the vpod that comes first pays for all of it.
    """
    kept: dict[int, int] = {}
    given: dict[int, int] = {}
    for ordinal in sorted(reserved):
        number = reserved[ordinal]
        if not state.is_usable(ordinal):
            continue
        cut = min(number, max(0, -state.room(ordinal), number - most if most else 0))
        if cut:
            given[ordinal] = cut
        if number > cut:
            kept[ordinal] = number - cut
    return kept, given


def take_away(kept: dict[int, int], number: int) -> None:
    """Take so many vreplicas away, from the highest ordinals."""
    for ordinal in sorted(kept, reverse=True):
        taken = min(number, kept[ordinal])
        kept[ordinal] -= taken
        number -= taken
        if not kept[ordinal]:
            del kept[ordinal]
        if not number:
            return


def _candidates(reserved: Counts, kept: Counts, state: SetState, limit: int) -> list[int]:
    """Ordinals in the order in which they get one each: lost ones, those without any, those with some.

    Where the watch says fewer replicas than the scale, the original has slots that nobody fills. They read as pod 0.
    """
    lost = [ordinal for ordinal in reserved if ordinal not in kept and state.is_usable(ordinal)]
    fresh = [o for o in state.usable if o < limit and o not in kept and o not in reserved]
    unfilled = len(state.usable) - len(lost) - len(fresh) - len(kept)
    return [*lost, *[0] * unfilled, *fresh, *sorted(kept)]


def _rooms(
    candidates: list[int], kept: Counts, vpod: VPodState, state: SetState, given: dict[int, int]
) -> list[tuple[int, int]]:
    """The candidates, each with how many more vreplicas it can take."""
    room = {
        ordinal: state.room(ordinal) + given.get(ordinal, 0) for ordinal in candidates if ordinal not in state.resting
    }
    if vpod.max_per_pod:
        room = {ordinal: min(number, vpod.max_per_pod - kept.get(ordinal, 0)) for ordinal, number in room.items()}
    return [(ordinal, room.get(ordinal, 0)) for ordinal in candidates]


def _add(kept: dict[int, int], number: int, rooms: list[tuple[int, int]]) -> int:
    """Give each candidate with room one vreplica, round after round; return how many are left.

    All whole rounds are made at once: the cost does not grow with the number that is wanted, which is anybody's.
    """
    room, slots = dict(rooms), Counter(ordinal for ordinal, _ in rooms)

    def given(rounds: int) -> dict[int, int]:
        """What so many rounds give. A candidate with several slots gets so much more in each."""
        return {ordinal: max(0, min(room[ordinal], rounds * slots[ordinal])) for ordinal in room}

    whole = bisect_right(range(max(0, number)), number, key=lambda rounds: sum(given(rounds + 1).values()))
    more = given(whole)
    left = number - sum(more.values())
    for ordinal, _ in rooms:
        if left > 0 and more[ordinal] < room[ordinal]:
            more[ordinal] += 1
            left -= 1
    for ordinal, got in more.items():
        if got:
            kept[ordinal] = kept.get(ordinal, 0) + got
    return left


def replicas(state: SetState, *, least: int = 0) -> int:
    """How many replicas the set should have for what its vpods want, whatever is placed, ready or usable."""
    if state.capacity < 1:
        return least
    return max(-(-state.total_wanted // state.capacity), least)


def stranded(state: SetState) -> list[tuple[str, int, int]] | None:
    """Committed placements (vpod, ordinal, vreplicas) on pods that the set has no longer.

    None if there can be none: that is not an attempt, after which the original rests for a period.
    """
    highest = max((*state.committed, *state.usable[-1:]), default=-1)
    if highest + 1 == state.replicas:
        return None
    return [
        (vpod.key, ordinal, vpod.committed[ordinal])
        for vpod in state.vpods.values()
        for ordinal in reversed(vpod.committed)
        if ordinal >= state.replicas
    ]
