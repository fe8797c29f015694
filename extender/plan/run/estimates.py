"""When waiting pods would start, from how long pods say that they run: the same run, in which time passes.

    everything at rest --> the next end of a pod that says how long it runs --> its room is free --> rest --> ...

Two such runs, one in which all pods take the least time that they declare, and one in which they take the most, give
the range. A pod that does not say how long it runs never ends here, also if others wait for its end: then they have no
estimate. What runs already has run since it was started, as far as world and pod say when.

With less room for longer a pod can also start earlier (another one took the place that it would have waited for), so
the range is that of the two runs, and no bound of all runs in between.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec.structs import replace

from extender.plan.records import Estimate, Plan, PlanPod, Row, Sign
from extender.plan.run.store import PlanCluster

#: The time that a pod takes, seconds; None: it never ends.
Duration = Callable[[PlanPod], float | None]
#: When each pod started, by namespace and name: seconds from the beginning.
Starts = Mapping[tuple[str, str], float]


def shortest(pod: PlanPod) -> float | None:
    """The least time that the pod declares."""
    return None if pod.seconds is None else pod.seconds[0]


def longest(pod: PlanPod) -> float | None:
    """The most time that the pod declares."""
    return None if pod.seconds is None else pod.seconds[1]


class RunTimes:
    """The ends of pods to come. `elapsed`: seconds since the beginning."""

    def __init__(self, cluster: PlanCluster, duration: Duration, taken: str) -> None:
        self.elapsed = 0.0
        self.starts: dict[tuple[str, str], float] = {}
        self._cluster = cluster
        self._duration = duration
        self._taken = taken
        self._ends: list[tuple[float, str]] = []
        self._is_first = True

    def end_next(self) -> float | None:
        """Let time pass until the next end of pods, and end them. Returns how long that took, seconds; None: no end."""
        self._take()
        self._drop_gone()
        if not self._ends:
            return None
        at = self._ends[0][0]
        while self._ends and self._ends[0][0] <= at:
            self._cluster.end(heapq.heappop(self._ends)[1])
        passed, self.elapsed = at - self.elapsed, at
        return passed

    def _take(self) -> None:
        """Take in the pods that were bound since the last time; at first also those that ran before."""
        bound, self._cluster.newly_bound = self._cluster.newly_bound, []
        for uid in bound:
            pod = self._cluster.pods.get(uid)
            if pod is not None:
                self.starts[pod.pod.key] = self.elapsed
                self._add(pod, 0.0)
        if self._is_first:
            self._is_first = False
            new = frozenset(bound)
            for uid, pod in self._cluster.pods.items():
                if pod.pod.pod.node_name and uid not in new:
                    self._add(pod, _seconds_between(pod.pod.started, self._taken))

    def _add(self, pod: PlanPod, has_run: float) -> None:
        seconds = self._duration(pod)
        if seconds is not None:
            heapq.heappush(self._ends, (self.elapsed + max(0.0, seconds - has_run), pod.pod.uid))

    def _drop_gone(self) -> None:
        while self._ends and not self._runs(self._ends[0][1]):
            heapq.heappop(self._ends)

    def _runs(self, uid: str) -> bool:
        pod = self._cluster.pods.get(uid)
        return pod is not None and not pod.pod.pod.finished


def _seconds_between(started: str, taken: str) -> float:
    """The seconds between two times in RFC 3339; 0 if one is not known."""
    try:
        between = datetime.fromisoformat(taken) - datetime.fromisoformat(started)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, between.total_seconds())


def with_starts(plan: Plan, one: Starts, other: Starts) -> Plan:
    """The plan with the starts of what runs or waits, as far as it starts in both runs."""
    return replace(plan, rows=tuple(_with_start(row, one, other) for row in plan.rows))


def _with_start(row: Row, one: Starts, other: Starts) -> Row:
    key = (row.namespace, row.name)
    if row.sign is Sign.STAYS or key not in one or key not in other:
        return row
    earliest, latest = sorted((one[key], other[key]))
    return replace(row, start=Estimate(earliest, latest))
