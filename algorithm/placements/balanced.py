"""`balanced`, the default: places a vpod's vreplicas as evenly as possible, with the fewest moves.

The rules for one vpod, in order of precedence; a later rule never overrides an earlier one:

    1. As many of the wanted vreplicas as possible are placed, on usable pods, within their capacity.
    2. They are on at least as many distinct pods as the vpod wants (`spread`).
    3. The numbers in any two zones differ by at most 1, or by as little as the room allows.
    4. The numbers on any two pods of a zone differ by at most 1, or by as little as the room allows.
    5. As few vreplicas as possible move.
    6. Pods with fewer vreplicas of other vpods come first, then those with lower ordinals.

The counts are found by filling pods like vessels with water: up to one common level, then one more for some. That is
the optimum of 1, 3 and 4, since each is a sum of convex costs over groups that contain each other or are disjoint
(Federgruen and Groenevelt, "The greedy procedure for resource allocation problems", 1986); which pods get one more is
then free, and rules 5 and 6 decide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from algorithm.placements.model import Placement, SetState, VPodState
from algorithm.placements.moves import number_of_moves, on_the_way


@dataclass(slots=True)
class _Pod:
    """A usable pod, for one vpod: what it has there, the least and the most it may have, what others have there."""

    ordinal: int
    has: int
    least: int
    most: int
    others: int

    def at(self, level: int) -> int:
        return max(self.least, min(self.most, level))


def place(vpod: VPodState, state: SetState, *, most_moves: int | None = None) -> Placement:
    """Place a vpod anew, as near as possible to where it is. Pods that rest keep what they have and get nothing.

    `most_moves` bounds how many vreplicas are moved only for the sake of evenness; None: no bound. Vreplicas on pods
    that cannot be used or hold too much are always moved.
    """
    if _is_even(vpod, state):
        return Placement(vpod.placed)
    pods = _pods(vpod, state)
    wanted = min(vpod.wanted, sum(pod.most for pod in pods))
    if spread := min(vpod.spread, wanted):
        _demand_distinct(pods, spread, state.zones)
    counts = _fill(pods, wanted, state.zones)
    now = {pod.ordinal: min(pod.has, pod.most) for pod in pods}
    moves = number_of_moves(now, counts)
    made = moves if most_moves is None else min(moves, most_moves)
    if made < moves:
        counts = on_the_way(now, counts, made)
    placed = {ordinal: counts[ordinal] for ordinal in sorted(counts) if counts[ordinal]}
    return Placement(placed, vpod.wanted - wanted, made, moves - made, _lacks_room(pods, counts, state.zones))


def _is_even(vpod: VPodState, state: SetState) -> bool:
    """Whether nothing is to be done, found out without looking at pods on which the vpod has none.

    False where that cannot tell, such as where pods without room make counts differ.
    """
    placed = vpod.placed
    if sum(placed.values()) != vpod.wanted or len(placed) < min(vpod.spread, vpod.wanted):
        return False
    sums = dict.fromkeys(state.zone_sizes, 0)
    for ordinal, number in placed.items():
        if not number or not state.is_usable(ordinal) or state.held[ordinal] > state.capacity:
            return False
        sums[state.zones.get(ordinal, "")] += number
    if not placed:
        return True
    if vpod.max_per_pod and max(placed.values()) > vpod.max_per_pod:
        return False
    least = min(placed.values()) if len(placed) == len(state.usable) else 0
    return max(placed.values()) - least <= 1 and max(sums.values()) - min(sums.values()) <= 1


def _lacks_room(pods: Iterable[_Pod], counts: Mapping[int, int], zones: Mapping[int, str]) -> bool:
    """Whether a pod would get more, for the sake of evenness, if it had room."""
    sums: dict[str, int] = {}
    for ordinal, number in counts.items():
        zone = zones.get(ordinal, "")
        sums[zone] = sums.get(zone, 0) + number
    most, most_in_zone = max(counts.values(), default=0), max(sums.values(), default=0)
    full = (pod.ordinal for pod in pods if pod.most <= counts[pod.ordinal])
    return any(counts[o] < most - 1 or sums[zones.get(o, "")] < most_in_zone - 1 for o in full)


def _pods(vpod: VPodState, state: SetState) -> list[_Pod]:
    """All usable pods. Most of them have room for all: `SetState.most_for` is asked where that is not plain."""
    held, placed, taken, capacity = state.held, vpod.placed, vpod.taken(), state.capacity
    is_plain = not vpod.max_per_pod and not state.resting
    found = []
    for ordinal in state.usable:
        has = placed.get(ordinal, 0)
        others = held.get(ordinal, 0) - taken.get(ordinal, 0)
        most = capacity - others
        if most < has or not is_plain:
            most = state.most_for(vpod, ordinal)
        found.append(_Pod(ordinal, has, 0, most, others))
    return found


def _demand_distinct(pods: Iterable[_Pod], number: int, zones: Mapping[int, str]) -> None:
    """Make as many distinct pods hold one vreplica at least, if so many have room."""
    ones = [_Pod(pod.ordinal, min(1, pod.has), 0, min(1, pod.most), pod.others) for pod in pods]
    chosen = _fill(ones, min(number, sum(pod.most for pod in ones)), zones)
    for pod in pods:
        pod.least = chosen[pod.ordinal]


def _fill(pods: Iterable[_Pod], number: int, zones: Mapping[int, str]) -> dict[int, int]:
    """Even counts by ordinal whose sum is `number`, which the pods can hold."""
    groups: dict[str, list[_Pod]] = {}
    for pod in pods:
        groups.setdefault(zones.get(pod.ordinal, ""), []).append(pod)
    if len(groups) <= 1:
        return {pod.ordinal: count for group in groups.values() for pod, count in _level(group, number)}
    vessels = {
        zone: _Pod(0, 0, sum(pod.least for pod in group), sum(pod.most for pod in group), 0)
        for zone, group in groups.items()
    }
    level, left = _common_level(vessels.values(), number)
    shares = {zone: vessel.at(level) for zone, vessel in vessels.items()}
    open_zones = [zone for zone, vessel in vessels.items() if vessel.least <= level < vessel.most]
    for zone in sorted(open_zones, key=lambda zone: _next_pod(groups[zone], shares[zone]))[:left]:
        shares[zone] += 1
    return {pod.ordinal: count for zone, group in groups.items() for pod, count in _level(group, shares[zone])}


def _level(pods: list[_Pod], number: int) -> list[tuple[_Pod, int]]:
    level, left = _common_level(pods, number)
    more = {pod.ordinal for pod in _first(pods, level)[:left]}
    return [(pod, pod.at(level) + (pod.ordinal in more)) for pod in pods]


def _first(pods: list[_Pod], level: int) -> list[_Pod]:
    """The pods at the level that can hold one more, in the order in which they get it."""
    return sorted((pod for pod in pods if pod.least <= level < pod.most), key=lambda pod: _rank(pod, level))


def _rank(pod: _Pod, level: int) -> tuple[bool, int, int]:
    return pod.has <= level, pod.others, pod.ordinal


def _next_pod(pods: list[_Pod], number: int) -> tuple[int, bool, int, int]:
    """The rank of the pod that would get the next vreplica of a zone that has `number`."""
    level, left = _common_level(pods, number)
    first = _first(pods, level)
    if left < len(first):
        return level, *_rank(first[left], level)
    after = _first(pods, level + 1)
    return level + 1, *_rank(after[0], level + 1)


def _common_level(pods: Iterable[_Pod], number: int) -> tuple[int, int]:
    """The highest level at which the vessels hold at most `number`, and how much is left above it.

    The vessels hold `number` between their least and their most.
    """
    pods = list(pods)
    bounds = sorted({0, *(pod.least for pod in pods), *(pod.most for pod in pods)})
    low, held = 0, sum(pod.least for pod in pods)
    for here, there in zip(bounds, [*bounds[1:], None], strict=True):
        growing = sum(pod.least <= here < pod.most for pod in pods)
        low = here
        if there is None or (growing == 0 and held >= number):
            break
        if held + growing * (there - here) > number:
            low += (number - held) // growing
            held += growing * (low - here)
            break
        held += growing * (there - here)
    return low, number - held
