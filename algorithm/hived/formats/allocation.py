"""Where the pods of a group run, as it is written on each of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where one pod of a group runs: machine, device numbers, and for each device the type of the preassigned cell.

    An empty type: the device is used opportunistically.
    """

    node: str
    indices: tuple[int, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """What is written on an allocated pod: its own place, and those of its whole group by devices per pod.

    If `is_partial`, only its own place is known.
    """

    node: str
    indices: tuple[int, ...]
    chain: str
    places: tuple[tuple[int, tuple[Place, ...]], ...]
    is_partial: bool = False


def own_place_of(allocation: Allocation) -> Place:
    """The pod's own place among those of its group, which has it."""
    own = (allocation.node, allocation.indices)
    return next(each for _, pods in allocation.places for each in pods if (each.node, each.indices) == own)


def unpromised(place: Place) -> Place:
    """The same place, used opportunistically."""
    return Place(place.node, place.indices, ("",) * len(place.types))
