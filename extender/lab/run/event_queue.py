"""The events of a simulation that are still to come, by time.

Of events at the same time, ends of runs come first, then nodes that return or change, nodes that fail, pods that are
created again, and jobs that give up. Events of one kind keep the order in which they were pushed.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from algorithm.model import Node
from extender.lab.run.live import LiveJob, LivePod


class RunEnds(NamedTuple):
    """The run of a gang (`pod` is None) or of one pod ends. Void if it started again since then (another `epoch`)."""

    job: LiveJob
    pod: LivePod | None
    epoch: int


class NodeReturns(NamedTuple):
    """A node that failed is back."""

    node: str


class NodeFails(NamedTuple):
    """A node fails."""

    node: str


class PodsRecreated(NamedTuple):
    """A controller creates pods again."""

    pods: tuple[LivePod, ...]


class NodeChanges(NamedTuple):
    """A node has another record."""

    node: Node


class JobGivesUp(NamedTuple):
    """The pods of a job are deleted. Void if one of them has had a place."""

    job: LiveJob


SimulationEvent = RunEnds | NodeReturns | NodeFails | PodsRecreated | NodeChanges | JobGivesUp
_RANKS: dict[type, int] = {RunEnds: 0, NodeReturns: 1, NodeChanges: 1, NodeFails: 2, PodsRecreated: 3, JobGivesUp: 4}


class EventQueue:
    """A priority queue of events, by time, kind and order of pushes."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, int, SimulationEvent]] = []
        self._entered = 0

    def push(self, at: float, what: SimulationEvent) -> None:
        """Add an event at a time."""
        self._entered += 1
        heapq.heappush(self._entries, (at, _RANKS[type(what)], self._entered, what))

    @property
    def next_time(self) -> float | None:
        """The time of the next event that is not void; None: there is none."""
        while self._entries and _is_void(self._entries[0][-1]):
            heapq.heappop(self._entries)
        return self._entries[0][0] if self._entries else None

    def pop(self, until: float) -> SimulationEvent | None:
        """Remove and return the next event at or before `until`; None: there is none."""
        at = self.next_time
        return heapq.heappop(self._entries)[-1] if at is not None and at <= until else None


def _is_void(what: SimulationEvent) -> bool:
    """Whether it is the end of a run that was interrupted, or the patience of a job that has started."""
    if isinstance(what, JobGivesUp):
        return what.job.first_start is not None
    return isinstance(what, RunEnds) and what.epoch != (what.job.epoch if what.pod is None else what.pod.made)
