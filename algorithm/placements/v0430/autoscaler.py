"""How many replicas v0.43.0 wants, and which vreplicas it moves off the last pods."""

from __future__ import annotations

from collections.abc import Iterable

from algorithm.placements.v0430.scheduler import PluginScheduler
from algorithm.placements.v0430.snapshot import Committed, Snapshot


def step_of(scheduler: PluginScheduler, state: Snapshot) -> int:
    """How many replicas the set grows or shrinks by: one for each node or zone that a priority spreads over."""
    names = {use.name for use in scheduler.adding.priorities} if scheduler.adding else set()
    if "AvailabilityNodePriority" in names:
        return len(state.cluster.zones)
    if "AvailabilityZonePriority" in names:
        return len({*state.cluster.zones.values()})
    return 1


def replicas(scheduler: PluginScheduler, *, least: int = 0) -> int:
    state = scheduler.state()
    capacity = state.cluster.capacity
    if scheduler.fills_up:
        return max(least, -(-sum(state.wanted.values()) // capacity))
    step = step_of(scheduler, state)
    wanted = state.last_ordinal + 1
    if pending := sum(state.pending.values()):
        room = capacity
        if scheduler.adding and "EvenPodSpread" in {use.name for use in scheduler.adding.predicates}:
            room = min((free for free in state.free if 0 < free < capacity), default=capacity)
        pods = -(-pending // room)
        wanted += -(-pods // step) * step
    if wanted <= state.last_ordinal:
        wanted = state.last_ordinal + step
    return max(least, wanted)


def removable(scheduler: PluginScheduler) -> list[tuple[str, int, int]] | None:
    """Committed placements (vpod, ordinal, vreplicas) on the last pods, if the others have room; None: no attempt."""
    state = scheduler.state()
    step = 1 if scheduler.fills_up else step_of(scheduler, state)
    last = range(state.last_ordinal, max(-1, state.last_ordinal - step), -1)
    if state.last_ordinal < 1 or len(state.usable) <= step:
        return None
    free = state.free_capacity - sum(state.free_on(ordinal) for ordinal in last)
    used = state.cluster.capacity * step - sum(state.free_on(ordinal) for ordinal in last)
    if free < used or (not scheduler.fills_up and state.cluster.replicas - step < step):
        return None
    return list(_on(last, scheduler.vpods.values()))


def _on(ordinals: Iterable[int], vpods: Iterable[Committed]) -> Iterable[tuple[str, int, int]]:
    wanted = {*ordinals}
    for vpod in vpods:
        for ordinal in reversed([*vpod.counts]):
            if ordinal in wanted:
                yield vpod.key, ordinal, vpod.counts[ordinal]
