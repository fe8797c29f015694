"""Several algorithms on one workload, one after the other, as one `Results`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from msgspec.structs import replace

from extender import DISTRIBUTION
from extender.lab.checking import capacity, check, too_large
from extender.lab.results import Results, Run
from extender.lab.run.simulation import RunOptions, Simulation
from extender.lab.workload import CPU, GPU, Workload

#: Hears of every moment: which run, and how far it is.
Observer = Callable[[int, Simulation], None]


def silent(_number: int, _simulation: Simulation) -> None:
    """An observer that does nothing."""


def limited(workload: Workload, limit: int | None) -> Workload:
    """Return the workload with its first `limit` jobs."""
    if limit is None or limit >= len(workload.jobs):
        return workload
    text = f"only the first {limit} of {len(workload.jobs)} jobs were simulated"
    return replace(workload, jobs=workload.jobs[:limit], remarks=(*workload.remarks, text))


def compare(workload: Workload, runs: Sequence[RunOptions], observe: Observer = silent) -> Results:
    """Return the results of all runs. Raises WorkloadError, TranslationError, PlanError."""
    check(workload)
    return results_of(workload, runs, [_run(Simulation(workload, each), at, observe) for at, each in enumerate(runs)])


def _run(simulation: Simulation, number: int, observe: Observer) -> Run:
    while simulation.advance():
        observe(number, simulation)
    return simulation.result()


def results_of(workload: Workload, options: Sequence[RunOptions], runs: Sequence[Run]) -> Results:
    """Return the results of these runs."""
    never = too_large(workload)
    remarks = workload.remarks
    if never:
        remarks += (f"{never} {'job needs' if never == 1 else 'jobs need'} more for one pod than any node has",)
    return Results(
        release=_release(),
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


def _release() -> str:
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""
