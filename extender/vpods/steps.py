"""The steps of a dry run, in order: vreplicas that move, and replicas that come and go.

The first MOST_STEPS are kept, and all are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum

import msgspec

from algorithm.placements.model import Counts
from extender.vpods.records import VPodKey, VPodRecord
from extender.vpods.views import paired

#: Steps that are kept.
MOST_STEPS = 10_000


class Why(StrEnum):
    """Why vreplicas move, appear or go."""

    #: Its pod is gone, not ready for too long, or on a node that does not serve.
    LOST_POD = "lost pod"
    #: Its pod takes none: an annotation, or its node is cordoned.
    CLOSED_POD = "closed pod"
    #: Its pod is about to be taken away.
    DRAIN = "drain"
    #: Its pod holds more than it can.
    TOO_FULL = "too full"
    EVENNESS = "evenness"
    #: More is wanted, or there is room at last; less is wanted.
    GROWTH = "growth"
    SHRINKAGE = "shrinkage"


class Moved(msgspec.Struct, frozen=True, gc=False):
    """Vreplicas of a vpod that moved. `source` None: new; `target` None: given up. `at`: seconds from the beginning."""

    at: float
    vpod: str
    source: int | None
    target: int | None
    vreplicas: int
    why: Why


class Scaled(msgspec.Struct, frozen=True, gc=False):
    """The replicas of the StatefulSet changed."""

    at: float
    before: int
    after: int


class Steps:
    """The steps of one run.

    `why` is asked why vreplicas leave a pod (None: they are new) for another one (None: they are given up).
    """

    def __init__(self, why: Callable[[int | None, int | None], Why]) -> None:
        self.kept: list[Moved | Scaled] = []
        self.total = 0
        self.scaled: list[Scaled] = []
        #: Vreplicas that moved from pod to pod, by reason; and those that were new, or given up.
        self.moved: Counter[Why] = Counter()
        self.grown = self.given_up = 0
        self._why = why
        #: Vreplicas of a vpod that are on these pods already, and still on the old ones, too.
        self._copied: dict[VPodKey, dict[int, int]] = {}

    def scale(self, step: Scaled) -> None:
        """Note that the replicas changed."""
        self.scaled.append(step)
        self._keep(step)

    def note(self, at: float, record: VPodRecord, before: Counts, after: Counts) -> None:
        """Note what changed in a status. Vreplicas that are on two pods for a while move when the old pods are left."""
        name = str(record.key)
        copied = self._copied.pop(record.key, {})
        surplus = sum(after.values()) - record.wanted
        for move in paired(name, before, after):
            number = move.vreplicas
            if move.source is None and move.target is not None and surplus > 0:
                twice = min(surplus, number)
                copied[move.target] = copied.get(move.target, 0) + twice
                surplus, number = surplus - twice, number - twice
            elif move.target is None and move.source is not None:
                number = self._leave(at, name, move.source, number, copied)
            if number:
                self._move(at, name, move.source, move.target, number)
        if copied and sum(after.values()) > record.wanted:
            self._copied[record.key] = copied

    def _leave(self, at: float, name: str, source: int, number: int, copied: dict[int, int]) -> int:
        """Note the end of moves from a pod to those on which the vreplicas are already. Return how many are left."""
        while number and copied:
            target = next(iter(copied))
            moved = min(number, copied[target])
            self._move(at, name, source, target, moved)
            number -= moved
            copied[target] -= moved
            if not copied[target]:
                del copied[target]
        return number

    def _move(self, at: float, name: str, source: int | None, target: int | None, number: int) -> None:
        """Count a move, and keep it."""
        why = self._why(source, target)
        if source is None:
            self.grown += number
        elif target is None:
            self.given_up += number
        else:
            self.moved[why] += number
        self._keep(Moved(at, name, source, target, number, why))

    def _keep(self, step: Moved | Scaled) -> None:
        self.total += 1
        if len(self.kept) < MOST_STEPS:
            self.kept.append(step)
