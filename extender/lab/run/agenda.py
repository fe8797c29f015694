"""What will happen in a simulation, by time. At the same time ends come first, then nodes that return or change, nodes
that fail, pods that are made again, and jobs that give up; of one kind, in the order in which they were entered."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from algorithm.model import Node
from extender.lab.run.live import LiveJob, LivePod


class Ends(NamedTuple):
    """The time of a gang (`pod` None) or of a pod is over, unless it began again meanwhile (`epoch`)."""

    job: LiveJob
    pod: LivePod | None
    epoch: int


class Returns(NamedTuple):
    """A node that failed is back."""

    node: str


class Fails(NamedTuple):
    """A node fails."""

    node: str


class MadeAgain(NamedTuple):
    """A controller makes pods again."""

    pods: tuple[LivePod, ...]


class Changes(NamedTuple):
    """A node has another record."""

    node: Node


class GivesUp(NamedTuple):
    """The pods of a job are deleted, unless one of them has had a place."""

    job: LiveJob


Happening = Ends | Returns | Fails | MadeAgain | Changes | GivesUp
_RANKS: dict[type, int] = {Ends: 0, Returns: 1, Changes: 1, Fails: 2, MadeAgain: 3, GivesUp: 4}


class Agenda:
    """A queue by time."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, int, Happening]] = []
        self._entered = 0

    def enter(self, at: float, what: Happening) -> None:
        self._entered += 1
        heapq.heappush(self._entries, (at, _RANKS[type(what)], self._entered, what))

    @property
    def next(self) -> float | None:
        """When the next thing happens; None: nothing will."""
        while self._entries and _is_void(self._entries[0][-1]):
            heapq.heappop(self._entries)
        return self._entries[0][0] if self._entries else None

    def take(self, until: float) -> Happening | None:
        """Return the next thing that happens until then."""
        at = self.next
        return heapq.heappop(self._entries)[-1] if at is not None and at <= until else None


def _is_void(what: Happening) -> bool:
    """Whether it is the end of a run that was broken off, or of the patience of a job that has begun."""
    if isinstance(what, GivesUp):
        return what.job.first_start is not None
    return isinstance(what, Ends) and what.epoch != (what.job.epoch if what.pod is None else what.pod.made)
