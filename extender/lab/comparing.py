"""Several algorithms on one workload, one after the other, as one `Results`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import NamedTuple

from msgspec.structs import replace

from extender import DISTRIBUTION
from extender.lab.checking import capacity, check, too_large
from extender.lab.results import Results, Run
from extender.lab.run.simulation import RunOptions, Simulation
from extender.lab.workload import CPU, GPU, Workload


def limited(workload: Workload, limit: int | None) -> Workload:
    """Return the workload with its first `limit` jobs."""
    if limit is None or limit >= len(workload.jobs):
        return workload
    text = f"only the first {limit} of {len(workload.jobs)} jobs were simulated"
    return replace(workload, jobs=workload.jobs[:limit], remarks=(*workload.remarks, text))


class Progress(NamedTuple):
    """How far the runs of a comparison are: results of those that are over, and the next one, if it has begun."""

    finished: list[Run]
    current: Simulation | None = None


class Comparison:
    """All runs, one after the other. Raises WorkloadError, TranslationError, PlanError."""

    def __init__(self, workload: Workload, runs: Sequence[RunOptions], progress: Progress | None = None) -> None:
        check(workload)
        self._workload, self._runs = workload, runs
        self.progress = progress or Progress([])

    @property
    def number(self) -> int:
        """Of the run in progress."""
        return len(self.progress.finished)

    def advance(self) -> bool:
        """Let one moment of one run happen; False if all are over."""
        finished, current = self.progress
        if current is None:
            if self.number == len(self._runs):
                return False
            current = Simulation(self._workload, self._runs[self.number])
        if current.advance():
            self.progress = Progress(finished, current)
        else:
            self.progress = Progress([*finished, current.result()])
        return True

    def results(self) -> Results:
        """The results of the runs that are over."""
        return results_of(self._workload, self._runs, self.progress.finished)


def compare(workload: Workload, runs: Sequence[RunOptions]) -> Results:
    """Return the results of all runs. Raises WorkloadError, TranslationError, PlanError."""
    comparison = Comparison(workload, runs)
    while comparison.advance():
        pass
    return comparison.results()


def results_of(workload: Workload, options: Sequence[RunOptions], runs: Sequence[Run]) -> Results:
    """Return the results of these runs."""
    never = too_large(workload)
    remarks = workload.remarks
    if never:
        remarks += (f"{never} {'job needs' if never == 1 else 'jobs need'} more for one pod than any node has",)
    return Results(
        release=release(),
        workload=workload.name,
        jobs=len(workload.jobs),
        pods=sum(job.pods for job in workload.jobs),
        nodes=len(workload.nodes),
        gpu_milli=capacity(workload.nodes, GPU),
        cpu_milli=capacity(workload.nodes, CPU),
        horizon=options[0].horizon if options else None,
        remarks=remarks,
        runs=tuple(runs),
    )


def release() -> str:
    """The version of this Waggle; empty if it is not installed."""
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""
