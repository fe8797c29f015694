"""A copy of the state in pieces, between which events change it.

Rooms of nodes and gangs change in place: each piece copies some of them. Cluster and gang book note in their `watch`
what changes meanwhile, and that is copied again in the last piece, together with the containers. So every part of the
copy is as it is at the moment of the last piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from algorithm.packing.gangs import Gang, GangKey
from algorithm.packing.nodes import NodeRoom
from algorithm.packing.state import State

#: How many nodes or gangs one piece copies.
PIECE = 150


def copied_in_pieces(state: State) -> Iterator[State | None]:
    """Yield None after each piece, and at last the copy. One at a time: raises RuntimeError otherwise."""
    cluster, book = state.cluster, state.gangs
    if cluster.watch is not None:
        raise RuntimeError("another copy of this algorithm is being made")
    rooms: dict[str, NodeRoom] = {}
    gangs: dict[GangKey, Gang] = {}
    try:
        cluster.watch, book.watch = set(), set()
        for part in _parts(cluster.rooms):
            rooms.update((name, cluster.rooms[name].copy()) for name in part if name in cluster.rooms)
            yield None
        for part in _parts(book.gangs):
            gangs.update((key, book.gangs[key].copy()) for key in part if key in book.gangs)
            yield None
        rooms.update((name, cluster.rooms[name].copy()) for name in cluster.watch if name in cluster.rooms)
        gangs.update((key, book.gangs[key].copy()) for key in book.watch if key in book.gangs)
        yield state.copy(rooms, gangs)
    finally:
        cluster.watch = book.watch = None


def _parts(things: dict[Any, Any]) -> Iterator[list[Any]]:
    names = list(things)
    for start in range(0, len(names), PIECE):
        yield names[start : start + PIECE]
