"""The interface between the engine and a policy, and the check of a plug-in's answers.

A plug-in exports a `PlacementPlugin`, which makes a function: it takes a vpod and its set, and returns vreplicas by
ordinal. The function depends on its arguments only and changes neither; it is called for one vpod at a time, on the
thread that decides. An answer is accepted only if

* its ordinals are usable, and its numbers are whole and not negative;
* no pod gets more than `SetState.most_for` says: its room, the vpod's `max_per_pod`, and nothing new where a pod rests;
* it places no more than the vpod wants. If it places fewer, the rest waits for room.

The set, not the policy, bounds the moves that only improve a placement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from algorithm.placements.model import Counts, Placement, SetState, VPodState
from algorithm.placements.moves import number_of_moves, on_the_way

#: The entry-point group of policies, and the version of `Place` that this Waggle speaks.
GROUP, API_VERSION = "waggle.placements", 1

#: A policy as its author writes it.
Place: TypeAlias = Callable[[VPodState, SetState], Counts]
#: A policy as the engine calls it; the number bounds moves that only make a placement better. Raises PolicyFault.
Policy: TypeAlias = Callable[[VPodState, SetState, int], Placement]

S = TypeVar("S", bound=BaseModel)


class PolicyError(ValueError):
    """The configured policy cannot be used; the message says what to change."""


class PolicyFault(Exception):  # noqa: N818 - a fault of somebody else's code
    """A policy failed, or gave an invalid answer; the message says why."""


@dataclass(frozen=True, kw_only=True)
class PlacementPlugin(Generic[S]):
    """What a plug-in exports: how to check the settings, and how to make the function from them."""

    settings: type[S]
    create: Callable[[S], Place]
    api_version: int = API_VERSION


def checked(place: Place) -> Policy:
    """The same policy, which raises PolicyFault for an answer that does not count."""

    def decide(vpod: VPodState, state: SetState, most_moves: int) -> Placement:
        try:
            found = place(vpod, state)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may raise anything, and call sys.exit()
            raise PolicyFault(f"it raised {type(error).__name__}: {str(error)[:200]}") from error
        if wrong := reason_against(found, vpod, state):
            raise PolicyFault(wrong)
        return _within(found, vpod, state, most_moves)

    return decide


def reason_against(counts: object, vpod: VPodState, state: SetState) -> str:
    """Why an answer does not count; "" if it does."""
    if not isinstance(counts, Mapping):
        return f"expected vreplicas by ordinal, got {type(counts).__name__}"
    total = 0
    for ordinal, number in counts.items():
        if type(ordinal) is not int or type(number) is not int or number < 0:
            return f"expected whole numbers by ordinal, got {ordinal!r}: {number!r}"[:200]
        if number and not state.is_usable(ordinal):
            return f"{number} on ordinal {ordinal}, which cannot be used"
        if number and number > (most := state.most_for(vpod, ordinal)):
            return f"{number} on ordinal {ordinal}, which can have {most} of this vpod"
        total += number
    return f"{total} vreplicas are placed, of {vpod.wanted} that are wanted" if total > vpod.wanted else ""


def _within(counts: Counts, vpod: VPodState, state: SetState, most_moves: int) -> Placement:
    """As far as the bound on moves allows. What has to leave a pod is not one of them."""
    goal = {ordinal: counts[ordinal] for ordinal in sorted(counts) if counts[ordinal]}
    now = {o: min(number, state.most_for(vpod, o)) for o, number in vpod.placed.items() if state.is_usable(o)}
    moves = number_of_moves(now, goal)
    made = min(moves, max(0, most_moves))
    if made < moves:
        way = on_the_way(now, goal, made)
        goal = {ordinal: way[ordinal] for ordinal in sorted(way) if way[ordinal]}
    # The policy may have wanted more on a pod that is full: it is asked again when some pod has room.
    is_full = any(state.most_for(vpod, ordinal) <= goal.get(ordinal, 0) for ordinal in state.usable)
    return Placement(goal, vpod.wanted - sum(goal.values()), made, moves - made, is_full)
