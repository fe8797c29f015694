"""Every pair of operation and fault, one after the other, in six arenas: see `_ARENAS`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

from tests.faults.arena import Arena, arena
from tests.faults.claim_arena import ClaimArena, claim_arena
from tests.faults.ordering_arena import OrderingArena, ordering_arena
from tests.faults.plan_arena import PlanArena, plan_arena
from tests.faults.table import Pair, pairs
from tests.faults.vpod_arena import VPodArena, vpod_arena

_Place: TypeAlias = Arena | ClaimArena | VPodArena | OrderingArena | PlanArena
_ELECTION = ("elector", "leadership", "labeler")
_ARENAS: dict[str, Callable[[int], AbstractContextManager[_Place]]] = {
    "pods": partial(arena, elected=False),
    "election": partial(arena, elected=True),
    "claims": claim_arena,
    "vpods": vpod_arena,
    "ordering": ordering_arena,
    "plans": plan_arena,
}


def arena_name(pair: Pair) -> str:
    """The arena in which a pair is tried."""
    by = pair.operation.by
    return by if by in _ARENAS else "election" if by in _ELECTION else "pods"


def _ignore(_pair: Pair) -> None:
    """Nobody watches."""


def try_all(
    chosen: Sequence[Pair],
    seed: int,
    *,
    tell: Callable[[Pair], None] = _ignore,
    more: Callable[[], bool] = lambda: True,
) -> Counter[tuple[str, str]]:
    """How often each struck and was survived, as long as `more` says so. Raises AssertionError, naming the pair."""
    survived: Counter[tuple[str, str]] = Counter()
    for name, arena_of in _ARENAS.items():
        mine = [pair for pair in chosen if arena_name(pair) == name]
        if not mine or not more():
            continue
        with arena_of(seed) as place:
            for pair in mine:
                if not more():
                    break
                tell(pair)
                place.try_one(pair)
        survived += place.survived
    return survived


def shuffled(seed: int) -> list[Pair]:
    """All pairs, in an order that the seed decides."""
    return random.Random(seed).sample(pairs(), len(pairs()))


def slice_of(seed: int) -> list[Pair]:
    """Few pairs, so that every operation and every fault is among them."""
    chosen: list[Pair] = []
    operations: set[str] = set()
    faults: set[str] = set()
    for needs in (all, any):  # pairs with a new operation and a new fault first: so there are fewer
        for pair in shuffled(seed):
            if needs((pair.operation.name not in operations, pair.fault.name not in faults)):
                chosen.append(pair)
                operations.add(pair.operation.name)
                faults.add(pair.fault.name)
    return chosen
