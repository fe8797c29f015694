"""How many replicas a set should have. Pure functions of its state.

    needed    the fewest replicas with room for all that vpods want, on pods that can be used
    target    needed, within the bounds, and from the present number by no more than one step

A pod that cannot be used is no capacity: the set gets one more replica for each of them below the target. A pod that
has not started yet counts as capacity, so that the set does not order it twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from extender.vpods.records import SetSettings


def needed(settings: SetSettings, wanted: int, spreads: Iterable[int], unusable: Container[int]) -> int:
    """Return the fewest sufficient replicas within the bounds. `unusable`: ordinals of unusable pods."""
    pods = max(-(-wanted // settings.capacity), max(spreads, default=0))
    replicas = 0
    while pods and replicas < settings.max_replicas:
        pods -= replicas not in unusable
        replicas += 1
    return min(settings.max_replicas, max(settings.min_replicas, replicas))


def target(settings: SetSettings, replicas: int, needed_replicas: int) -> int:
    """The next number of replicas on the way to what is needed."""
    if needed_replicas > replicas and settings.scale_up_step:
        return min(needed_replicas, replicas + settings.scale_up_step)
    if needed_replicas < replicas and settings.scale_down_step:
        return max(needed_replicas, replicas - settings.scale_down_step)
    return needed_replicas
