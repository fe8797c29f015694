"""The figures of a page: each takes the runs and returns the inside of a card, or None if there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10

from extender.lab.report.plot import Bar, Line, Tick, bars, plot
from extender.lab.report.units import (
    DECADES,
    LONG_DECADES,
    count,
    duration,
    gpu_hours,
    share,
    thinned,
    ticks,
    time_unit,
)
from extender.lab.results import Group, Point, Run

#: Points of a line, and groups of bars: bounds of the page's size.
MOST_POINTS, MOST_GROUPS = 240, 8
_PERCENT = [Tick(each / 100, f"{each} %") for each in (0, 25, 50, 75, 100)]


def delays(runs: Sequence[Run]) -> str | None:
    """The share of all jobs that started within a time, by that time."""
    waited = [sorted(job.delay for job in run.jobs if job.delay is not None) for run in runs]
    longest = max((each[-1] for each in waited if each), default=0.0)
    if not any(waited):
        return None
    places = [place for place in (*DECADES, *LONG_DECADES) if place[0] <= max(longest, 10)]
    most = log10(max(longest * 1.05, 10))
    lines = [
        Line(number, run.name, _distribution(each, len(run.jobs), most))
        for number, (run, each) in enumerate(zip(runs, waited, strict=True))
    ]
    x = [Tick(log10(seconds) / most, name if seconds > 1 else f"≤ {name}") for seconds, name in places]
    told = [
        f"{run.name}: half within {_within(each, len(run.jobs), 50)}, 90 % within {_within(each, len(run.jobs), 90)}."
        for run, each in zip(runs, waited, strict=True)
    ]
    summary = f"Share of jobs that started within a time. {' '.join(told)}"
    return plot(
        lines, _apart(x), _PERCENT, summary=summary, x_name="waiting time (logarithmic)", y_name="share of all jobs"
    )


def _distribution(ordered: Sequence[float], jobs: int, most: float) -> list[tuple[float, float]]:
    """Points of the cumulative distribution: of equal steps in the share, so that its ends are drawn."""
    if not ordered:
        return []
    within = sum(each <= 1 for each in ordered)
    points = [(0.0, within / jobs)]
    steps = min(MOST_POINTS, len(ordered) - within)
    for step in range(1, steps + 1):
        place = within - 1 + round(step * (len(ordered) - within) / steps)
        points.append((log10(max(1.0, ordered[place])) / most, (place + 1) / jobs))
    return [*points, (1.0, points[-1][1])]


def _within(ordered: Sequence[float], jobs: int, percent: int) -> str:
    """What so many per cent of all jobs do not exceed, if so many started."""
    place = -(-jobs * percent // 100) - 1
    return duration(ordered[place]) if 0 <= place < len(ordered) else "no time: too few started"


def _apart(found: Sequence[Tick], least: float = 0.11) -> list[Tick]:
    """Ticks that do not overlap in a narrow window."""
    kept: list[Tick] = []
    for tick in found:
        if not kept or tick.at - kept[-1].at >= least:
            kept.append(tick)
    return kept


def utilisation(runs: Sequence[Run]) -> str | None:
    """GPUs that run jobs, of those that are there, over time; processors where there are no GPUs."""
    if _has_gpus(runs):
        return _over_time(runs, lambda point: _of(point.gpu_running_milli, point.gpu_milli), "GPUs running jobs")
    return _over_time(runs, lambda point: _of(point.cpu_running_milli, point.cpu_milli), "cores running jobs")


def waiting(runs: Sequence[Run]) -> str | None:
    """Jobs that wait, over time."""
    return _over_time(runs, lambda point: point.waiting_jobs, "jobs wait", shares=False)


def fragmentation(runs: Sequence[Run]) -> str | None:
    """GPUs that are free and of no use for a typical pod, over time."""
    if not _has_gpus(runs):
        return None
    found = [_of(point.gpu_fragmented_milli, point.gpu_milli) for run in runs for point in run.series.points]
    if not any(found):
        return None
    return _over_time(
        runs,
        lambda point: _of(point.gpu_fragmented_milli, point.gpu_milli),
        "of the GPUs are fragmented",
        most=max(found),
    )


def _has_gpus(runs: Sequence[Run]) -> bool:
    return any(point.gpu_milli for run in runs for point in run.series.points)


def _of(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _over_time(
    runs: Sequence[Run], value: Callable[[Point], float], what: str, *, shares: bool = True, most: float = 1.0
) -> str | None:
    """A plot of a value of the series over time; `most` is the largest share, counts have an axis of their own."""
    values = [thinned([value(point) for point in run.series.points], MOST_POINTS) for run in runs]
    span = max((run.series.step * len(run.series.points) for run in runs), default=0.0)
    if not any(values) or not span:
        return None
    if shares:
        upwards = ticks(min(1.0, most))
        y = [Tick(each / upwards[-1], f"{100 * each:g} %") for each in upwards]
    else:
        upwards = ticks(max(max(each, default=0.0) for each in values))
        y = [Tick(each / upwards[-1], count(each)) for each in upwards]
    lines = [
        Line(number, run.name, _line(run, each, span, upwards[-1]))
        for number, (run, each) in enumerate(zip(runs, values, strict=True))
    ]
    size, unit = time_unit(span)
    x = [Tick(each * size / span, f"{each:g}") for each in ticks(span / size, 5) if each * size <= span * 1.001]
    told = share if shares else count
    summary = f"{what}, over {duration(span)}. " + " ".join(
        f"{run.name}: {told(sum(each) / len(each))} on average, at most {told(max(each))}."
        for run, each in zip(runs, values, strict=True)
        if each
    )
    return plot(lines, x, y, summary=summary, x_name=f"{unit} since the beginning of the trace", y_name=what)


def _line(run: Run, values: Sequence[float], span: float, most: float) -> list[tuple[float, float]]:
    """Each value in the middle of its step."""
    length = run.series.step * len(run.series.points) / span
    return [((place + 0.5) / len(values) * length, each / most) for place, each in enumerate(values)]


def by_tenant(runs: Sequence[Run]) -> str | None:
    """Delays of the tenants with the most jobs."""
    return _by_group(runs, lambda run: run.measures.tenants)


def by_size(runs: Sequence[Run]) -> str | None:
    """Delays by size."""
    return _by_group(runs, lambda run: run.measures.sizes)


def _by_group(runs: Sequence[Run], groups_of: Callable[[Run], Sequence[Group]]) -> str | None:
    """Mean delays as bars, with a thin line to the 90th percentile."""
    found = [{group.name: group for group in groups_of(run)} for run in runs]
    jobs: dict[str, int] = {}
    for groups in found:
        for name, group in groups.items():
            jobs[name] = max(jobs.get(name, 0), group.jobs)
    kept = set(sorted(jobs, key=lambda name: (-jobs[name], name))[:MOST_GROUPS])
    names = [name for name in jobs if name in kept]
    spreads = [group.delay for groups in found for name, group in groups.items() if name in kept]
    most = max((max(spread.mean or 0.0, spread.p90 or 0.0) for spread in spreads), default=0.0)
    if len(jobs) < 2 or not most:
        return None

    def bar(run: int, name: str) -> Bar | None:
        group = found[run].get(name)
        if group is None or group.delay.mean is None or group.delay.p90 is None:
            return None
        told = f"{duration(group.delay.mean)}, 90 % within {duration(group.delay.p90)}"
        return Bar(run, group.delay.mean / most, told, group.delay.p90 / most)

    rows = [
        (
            f"{name or '(no tenant)'}: {jobs[name]:,} jobs",
            [each for run in range(len(runs)) if (each := bar(run, name))],
        )
        for name in names
    ]
    left = len(jobs) - len(kept)
    note = f'<p class="note">{left:,} with fewer jobs are not shown.</p>' if left else ""
    return bars(rows) + note


def interruptions(runs: Sequence[Run]) -> str | None:
    """Evictions, restarts after failures of nodes, and the GPU time that was lost with them."""
    kinds: tuple[tuple[str, list[float], Callable[[float], str]], ...] = (
        ("Evictions", [float(run.measures.evictions) for run in runs], count),
        ("Restarts because a node failed", [float(run.measures.failures) for run in runs], count),
        ("GPU hours lost", [run.measures.lost_gpu_milli_seconds for run in runs], gpu_hours),
        (
            "GPU hours held by gangs that were not complete",
            [run.measures.held_gpu_milli_seconds for run in runs],
            gpu_hours,
        ),
    )
    rows = []
    for name, values, told in kinds:
        most = max(values, default=0.0)
        if most:
            rows.append((name, [Bar(run, value / most, told(value)) for run, value in enumerate(values)]))
    return bars(rows) if rows else None


def fairness(runs: Sequence[Run]) -> str | None:
    """Jain's index by run."""
    found = [
        Bar(number, run.measures.fairness, f"{run.measures.fairness:.3f}")
        for number, run in enumerate(runs)
        if run.measures.fairness is not None
    ]
    return bars([("", found)]) if found else None
