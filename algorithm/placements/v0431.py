"""`v0.43.1`: Knative eventing's scheduler as it was released with 1.16 (November 2024).

It places as `head` does, but for minReplicas, which only its autoscaler knows. It empties the last pod of a set once
the other pods have room.

Source: knative/eventing v0.43.1 pkg/scheduler/statefulset, by behaviour (recorded answers, tests/conformance).
"""

from __future__ import annotations

from algorithm.placements import head
from algorithm.placements.model import Placement, SetState, VPodState


def place(vpod: VPodState, state: SetState, *, watched: int | None = None) -> Placement:
    return head.place(vpod, state, watched=watched)


def last_ordinal(state: SetState) -> int:
    """The highest ordinal that is usable or that a committed placement names; -1 if there is none."""
    return max((*state.committed, *state.usable[-1:]), default=-1)


def removable(state: SetState) -> list[tuple[str, int, int]] | None:
    """Committed placements (vpod, ordinal, vreplicas) on the last pod, if the other pods have room for a whole pod.

    None if the set is too small, or too full, for an attempt.
    """
    last = last_ordinal(state)
    if last < 1 or len(state.usable) <= 1:
        return None
    if sum(state.capacity - state.committed.get(ordinal, 0) for ordinal in state.usable) < state.capacity:
        return None
    return [(vpod.key, last, vpod.committed[last]) for vpod in state.vpods.values() if last in vpod.committed]
