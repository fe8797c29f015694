"""A copy of the state in pieces, between which events change it.

Rooms of nodes and gangs change in place: each piece copies some of them. Cluster and gang book note in their `watch`
what changes meanwhile, and that is copied again in the last piece. Tables are copied before that, and their copies
follow them. So every part of the copy is as it is at the moment of the last piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from algorithm.packing.gangs import Gang, GangKey
from algorithm.packing.nodes import NodeRoom
from algorithm.packing.state import State
from algorithm.tables import Followers

#: How many nodes or gangs one piece copies.
PIECE = 150
#: So many changed ones may be left for the last piece.
_LAST = 50


def copied_in_pieces(state: State) -> Iterator[Callable[[], State] | None]:
    """Yield None after each piece, and at last a function that returns the copy, for when it does not matter how long
    that takes. One at a time: raises RuntimeError otherwise.
    """
    cluster, book = state.cluster, state.gangs
    if cluster.watch is not None:
        raise RuntimeError("another copy of this algorithm is being made")
    rooms: dict[str, NodeRoom] = {}
    gangs: dict[GangKey, Gang] = {}
    followers = Followers()

    def renew(most: int) -> None:
        for changed, copies, originals in ((cluster.watch, rooms, cluster.rooms), (book.watch, gangs, book.gangs)):
            _renew(changed or set(), copies, originals, most)

    try:
        cluster.watch, book.watch = set(), set()
        for table in state.tables():
            followers.follow(table)
            yield None
        for part in _parts(cluster.rooms):
            rooms.update((name, cluster.rooms[name].copy()) for name in part if name in cluster.rooms)
            yield None
        for part in _parts(book.gangs):
            gangs.update((key, book.gangs[key].copy()) for key in part if key in book.gangs)
            yield None
        while len(cluster.watch) + len(book.watch) > _LAST:
            renew(PIECE)
            yield None
        renew(_LAST)
        twin = state.taken(followers)
        followers.unfollow()
        yield lambda: _linked(twin, rooms, gangs)
    finally:
        cluster.watch = book.watch = None
        followers.unfollow()


def _renew(changed: set[Any], copies: dict[Any, Any], originals: dict[Any, Any], most: int) -> None:
    """Copy again so many of those that have changed."""
    for _ in range(min(most, len(changed))):
        key = changed.pop()
        if key in originals:
            copies[key] = originals[key].copy()


def _linked(twin: State, rooms: dict[str, NodeRoom], gangs: dict[GangKey, Gang]) -> State:
    twin.link(rooms, gangs)
    return twin


def _parts(things: dict[Any, Any]) -> Iterator[list[Any]]:
    names = list(things)
    for start in range(0, len(names), PIECE):
        yield names[start : start + PIECE]
