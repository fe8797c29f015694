"""Every pair of operation and fault, one after the other, in two arenas: with and without leader election."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from tests.faults.arena import arena
from tests.faults.table import Pair, pairs

_ELECTION = ("elector", "leadership", "signpost")


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
    for elected in (False, True):
        mine = [pair for pair in chosen if (pair.operation.by in _ELECTION) == elected]
        if not mine or not more():
            continue
        with arena(seed, elected=elected) as place:
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


def slice_of(seed: int, size: int) -> list[Pair]:
    """Some pairs, so that every operation and every fault is among them, and `size` of them at least."""
    chosen, operations, faults = [], set(), set()
    for pair in shuffled(seed):
        if pair.operation.name not in operations or pair.fault.name not in faults:
            chosen.append(pair)
            operations.add(pair.operation.name)
            faults.add(pair.fault.name)
    rest = [pair for pair in shuffled(seed) if pair not in chosen]
    return chosen + rest[: max(0, size - len(chosen))]
