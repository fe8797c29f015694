"""The three columns of a counterfactual as text: the table, how good the simulation is, and what differs most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from extender.lab.checking import capacity
from extender.lab.comparing import release
from extender.lab.results import Group, JobResult, JobState, Results, Run
from extender.lab.workload import CPU, GPU
from extender.replay.counterfactual import Counterfactual
from extender.replay.moments import duration_text

#: Tenants with rows of their own, and differences that are named.
MOST_TENANTS, MOST_DIFFERENCES = 20, 10
#: A job counts as placed at the same time if the times differ by no more than this: seconds, but no more than a part of
#: the whole time, in which all jobs of a short recording would agree; or a part of its waiting.
_CLOSE, _CLOSE_SHARE, _CLOSE_PART = 10.0, 0.01, 0.1
#: The share of jobs below which a simulation says little, and the seconds of a short recording.
_RELIABLE, _SHORT = 0.8, 600.0
_LONGEST_REASON: Final = 160
_HOUR = 3600.0


def runs_of(made: Counterfactual) -> tuple[Run, Run, Run]:
    return made.recorded, made.baseline, made.other


def table(made: Counterfactual) -> list[tuple[str, ...]]:
    """Return the rows: a name, and a text for each column."""
    runs = runs_of(made)
    rows: list[tuple[str, ...]] = [
        ("", *(run.name for run in runs)),
        ("", "", "simulated", "simulated"),
        ("jobs", *(str(len(run.jobs)) for run in runs)),
        _row("waiting time p50 / p90 / p99", runs, lambda run: _waiting(run.measures.all)),
    ]
    for name in _tenants(runs):
        rows.append((f"  {name or '(no tenant)'}", *(_of_tenant(_group(run, name)) for run in runs)))
    rows.append(_row("never started", runs, lambda run: str(run.measures.all.never_started)))
    if any(run.measures.gpu_allocation is not None for run in runs):
        rows.append(_row("GPUs allocated", runs, lambda run: _share(run.measures.gpu_allocation)))
        rows.append(_row("GPUs used", runs, lambda run: _share(run.measures.gpu_utilisation)))
        rows.append(_row("GPU hours lost", runs, lambda run: _hours(run.measures.lost_gpu_milli_seconds)))
    else:
        rows.append(_row("cores allocated", runs, lambda run: _share(run.measures.cpu_allocation)))
        rows.append(_row("cores used", runs, lambda run: _share(run.measures.cpu_utilisation)))
    rows += [
        _row("evictions", runs, lambda run: str(run.measures.evictions)),
        _row("jobs on nodes that failed", runs, lambda run: str(run.measures.failures)),
        _row("gangs started", runs, lambda run: _gangs(run.jobs, lambda job: job.start is not None)),
        _row(
            "gangs incomplete at the end", runs, lambda run: _gangs(run.jobs, lambda job: job.state is JobState.PARTLY)
        ),
        _row("pods of jobs that never started", runs, lambda run: _pods(run.jobs, lambda job: job.start is None)),
    ]
    return rows


def _row(name: str, runs: Sequence[Run], text: Callable[[Run], str]) -> tuple[str, ...]:
    return (name, *(text(run) for run in runs))


def _tenants(runs: Sequence[Run]) -> list[str]:
    """The tenants with most jobs, by name; none if there is only one."""
    groups = {group.name: group.jobs for run in runs for group in run.measures.tenants}
    most = sorted(groups, key=lambda name: (-groups[name], name))[:MOST_TENANTS]
    return sorted(most) if len(groups) > 1 else []


def _group(run: Run, name: str) -> Group | None:
    return next((group for group in run.measures.tenants if group.name == name), None)


def _waiting(group: Group | None) -> str:
    if group is None or group.delay.p50 is None:
        return "-"
    delay = group.delay
    return " / ".join(short(value) for value in (delay.p50, delay.p90, delay.p99) if value is not None)


def _of_tenant(group: Group | None) -> str:
    """Its waiting times, and how many of its jobs are not in them, since they never started."""
    never = f", {group.never_started} never" if group is not None and group.never_started else ""
    return f"{_waiting(group)}{never}"


def short(seconds: float) -> str:
    """Return seconds as people read them: 0.4s, 12s, 5m10s, 3h20m."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < _HOUR:
        return duration_text(round(seconds))
    minutes = round(seconds / 60)
    return f"{minutes // 60}h{minutes % 60:02}m"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _hours(milli_seconds: float) -> str:
    return f"{milli_seconds / 1000 / _HOUR:.1f}"


def _gangs(jobs: Iterable[JobResult], has: Callable[[JobResult], bool]) -> str:
    gangs = [job for job in jobs if job.gang]
    return f"{sum(map(has, gangs))} of {len(gangs)}"


def _pods(jobs: Iterable[JobResult], has: Callable[[JobResult], bool]) -> str:
    found = list(jobs)
    return f"{sum(job.pods for job in found if has(job))} of {sum(job.pods for job in found)}"


# -- how good the simulation is ---------------------------------------------------------------------------------------


def closeness(made: Counterfactual) -> str:
    """Return a sentence: for how many jobs the simulation with the recorded settings agrees with what happened."""
    pairs = list(zip(made.recorded.jobs, made.baseline.jobs, strict=False))
    within = min(_CLOSE, _CLOSE_SHARE * made.horizon)
    close = sum(_is_close(then, now, within) for then, now in pairs)
    share = f" ({100 * close / len(pairs):.0f} %)" if pairs else ""
    doubt = " That is too few to rely on the last column." if close < _RELIABLE * len(pairs) else ""
    if doubt and made.horizon < _SHORT:
        doubt += " A longer recording helps: in a short one, milliseconds decide which job gets a place."
    return (
        f"The simulation with the recorded settings agrees for {close} of {len(pairs)} jobs{share}: they never "
        f"started, or started when they really did, within {within:.2g} s or a tenth of their waiting time.{doubt}"
    )


def _is_close(then: JobResult, now: JobResult, within: float) -> bool:
    if then.start is None or now.start is None:
        return then.start is now.start
    return abs(then.start - now.start) <= max(within, _CLOSE_PART * (then.start - then.arrival))


# -- what differs most ------------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """One job under the recorded settings and under the other ones, simulated; and how many seconds longer it waits."""

    recorded: JobResult
    baseline: JobResult
    other: JobResult
    longer: float


def differences(made: Counterfactual) -> list[Difference]:
    """Return the jobs that wait much longer or shorter, the largest difference first, then those that are evicted more
    or less often. One that never started waits at least until the end."""
    found = []
    for then, baseline, other in zip(made.recorded.jobs, made.baseline.jobs, made.other.jobs, strict=False):
        longer = _waited(other, made.horizon) - _waited(baseline, made.horizon)
        if abs(longer) >= 1 or other.evictions != baseline.evictions:
            found.append(Difference(then, baseline, other, longer))
    return sorted(found, key=_order)[:MOST_DIFFERENCES]


def _order(each: Difference) -> tuple[float, int, str]:
    longer = abs(each.longer) if abs(each.longer) >= 1 else 0.0
    return -longer, -abs(each.other.evictions - each.baseline.evictions), each.other.name


def _waited(job: JobResult, horizon: float) -> float:
    return (horizon if job.start is None else job.start) - job.arrival


def difference_text(each: Difference, made: Counterfactual) -> str:
    """Return what is different about one job, with the reasons."""
    job = each.other
    what = f"{job.name} ({f'gang of {job.pods}' if job.gang else 'pod'}, {job.tenant})"
    then, baseline, other = (_state(result, made.horizon) for result in (each.recorded, each.baseline, each.other))
    names = [run.name for run in runs_of(made)]
    if then == baseline:
        return f"{what}: {names[0]}, and in its simulation: {then}; {names[2]}: {other}"
    return f"{what}: {names[0]}: {then}; {names[1]}: {baseline}; {names[2]}: {other}"


def _state(job: JobResult, horizon: float) -> str:
    if job.start is not None:
        again = f", evicted {job.evictions} times" if job.evictions > 1 else ", evicted once" if job.evictions else ""
        return f"waited {short(job.start - job.arrival)}{again}"
    text = " ".join(job.text.split()).partition(". ")[0].rstrip(".")
    why = f": {text[:_LONGEST_REASON]}{'...' if len(text) > _LONGEST_REASON else ''}" if text else ""
    code = f" {job.code}" if job.code else ""
    return f"still waits after {short(horizon - job.arrival)}{',' if code else ''}{code}{why}"


def remarks(made: Counterfactual) -> Iterator[str]:
    """Yield what was not recorded, assumed or translated, and why a run ended early."""
    yield from made.workload.remarks
    yield from made.changes
    for run in runs_of(made):
        yield from (f"{run.name}: {each}" for each in run.remarks)
        if run.stopped:
            yield f"{run.name} ended early: {run.stopped}"


def results(made: Counterfactual) -> Results:
    """Return the three runs as `waggle simulate` has them."""
    workload = made.workload
    return Results(
        release=release(),
        workload=workload.name,
        jobs=len(workload.jobs),
        pods=sum(job.pods for job in workload.jobs),
        nodes=len(workload.nodes),
        gpu_milli=capacity(workload.nodes, GPU),
        cpu_milli=capacity(workload.nodes, CPU),
        horizon=made.horizon,
        remarks=tuple(remarks(made)),
        runs=runs_of(made),
    )
