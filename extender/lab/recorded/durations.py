"""How long a job would run that never had its places: the median of the recorded runs that are most like it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from statistics import median
from typing import NamedTuple

from extender.lab.workload import Job


class Estimate(NamedTuple):
    """Seconds, None: nothing ended; and of which jobs they are the median."""

    seconds: float | None
    of: str


class Durations:
    """The recorded runs that have ended."""

    def __init__(self) -> None:
        self._seconds: dict[Hashable, list[float]] = {}

    def add(self, job: Job) -> None:
        """A job that ran to its end."""
        assert job.seconds is not None
        for key, _ in _keys(job):
            self._seconds.setdefault(key, []).append(job.seconds)

    def like(self, job: Job) -> Estimate:
        """Return how long jobs like this one ran."""
        for key, of in _keys(job):
            if found := self._seconds.get(key):
                return Estimate(median(found), of)
        return Estimate(None, "")


def _keys(job: Job) -> Iterator[tuple[Hashable, str]]:
    """What makes jobs alike, the closest likeness first."""
    size = job.pods, tuple(sorted(job.requests.items()))
    yield ("tenant", job.tenant, size), "its tenant's jobs of this size"
    yield ("size", size), "all jobs of this size"
    yield "all", "all jobs"
