"""Dry runs and explanations for callers, with a bound of their cost.

    caller --> copy of the set (under the loop's lock) --> simulation, in the caller's thread, without any lock

Bounds, however often it is asked: a copy holds the loop's lock for as long as it takes to refer to the set's vpods and
pods, less than a millisecond for a thousand vpods; one answer takes SECONDS of CPU time at most, and says if it was
stopped; `cpu_share.py` bounds what all of them take together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from extender.server.cpu_share import CpuShare
from extender.vpods.copies import SetCopy, VPodCopy, copy_set
from extender.vpods.engine import VPodEngine
from extender.vpods.explaining import Explaining, Explanation
from extender.vpods.planning import Changes, Plan, Planning
from extender.vpods.records import ObjectKey

#: Seconds of CPU time of one answer.
SECONDS = 5.0
T = TypeVar("T")


class Looked(Protocol):
    """The owner of an engine of vpods: calls a function with the engine and its time, under the engine's lock."""

    def look(self, read: Callable[[VPodEngine, float], T], patience: float = -1) -> T: ...


class Planner:
    """Thread-safe."""

    def __init__(
        self,
        runtime: Looked,
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._runtime = runtime
        self._seconds = seconds
        self._cpu = cpu
        self._share = CpuShare(clock=clock, cpu=cpu, sleep=sleep)

    def copy(self, key: ObjectKey) -> SetCopy | None:
        """Return a copy of the set of this moment; None if there is no such set."""
        return self._runtime.look(lambda engine, now: copy_set(engine, key, now))

    def plan(self, copy: SetCopy, changes: Changes, *, limit: int) -> Plan:
        """Return what the changes would lead to, from this copy on. Raises ChangeError, PlannerBusy."""
        with self._share.turn():
            planning = Planning(copy, changes)
            self._run(planning.run())
            return planning.result(limit=limit)

    def explain(self, copy: SetCopy, vpod: VPodCopy) -> Explanation:
        """Return why a vpod of this copy is as it is. Raises PlannerBusy."""
        with self._share.turn():
            explaining = Explaining(copy, vpod)
            self._run(explaining.run())
            return explaining.result()

    def _run(self, steps: Iterator[None]) -> None:
        end = self._cpu() + self._seconds
        for _ in steps:
            if self._cpu() > end:
                return
