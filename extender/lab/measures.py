"""Sums over the jobs of a run. docs/simulate.md has the definitions and where they come from.

* *Delay*: from arrival until all pods of the job have a place, for the first time. *Completion*: from arrival to end.
* *Slowdown* (bounded; Feitelson et al., 1997): completion over run time, where a run counts as at least ten seconds.
* *Allocation*: GPU time that pods took, of the GPU time of all nodes while they were there. *Utilisation*: only that of
  runs that were not lost; a gang that waits for more of its pods allocates, and uses nothing.
* *Fragmentation* (Weng et al., "Beware of Fragmentation", USENIX ATC 2023): free GPU time that a pod such as the
  workload's could not use, as the expectation over its pods. `algorithm/fgd/fragmentation.py` has the formula.
* *Fairness* (Jain, Chiu and Hawe, 1984): the square of the sum of the tenants' mean slowdowns, over the number of
  tenants times the sum of their squares. 1: all are slowed down alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from extender.lab.results import Group, JobResult, JobState, Measures, Spread
from extender.lab.series import LEVELS, SeriesMaker

#: Runs that are shorter count as so long, seconds.
SHORTEST = 10.0
#: Tenants that get a group of their own, those with the most jobs; the others share one.
MOST_TENANTS = 200
OTHERS = "(others)"
#: Sizes of jobs by GPUs: the largest number of GPUs of each class, and its name.
_SIZES = (
    (0, "no GPU"),
    (999, "part of a GPU"),
    (1000, "1 GPU"),
    (2000, "2 GPUs"),
    (4000, "3 to 4 GPUs"),
    (8000, "5 to 8 GPUs"),
    (16000, "9 to 16 GPUs"),
    (64000, "17 to 64 GPUs"),
)
_LARGEST = "more than 64 GPUs"


def size_class(gpu_milli: int) -> str:
    """Return the name of the size class of a job."""
    return next((name for most, name in _SIZES if gpu_milli <= most), _LARGEST)


def spread(values: Iterable[float]) -> Spread:
    """Return mean and percentiles by nearest rank."""
    ordered = sorted(values)
    if not ordered:
        return Spread()

    def percentile(share: int) -> float:
        return ordered[max(0, -(-len(ordered) * share // 100) - 1)]

    mean = math.fsum(ordered) / len(ordered)
    return Spread(len(ordered), mean, percentile(50), percentile(90), percentile(99), ordered[-1])


def slowdown(job: JobResult) -> float | None:
    """Return by which factor waiting and evictions lengthened the job; None: it was not done."""
    if job.end is None or job.seconds is None:
        return None
    run = max(job.seconds, SHORTEST)
    return max(1.0, (job.end - job.arrival) / run)


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's index of fairness; None for less than two values."""
    squares = math.fsum(value * value for value in values)
    if len(values) < 2 or not squares:
        return None
    return math.fsum(values) ** 2 / (len(values) * squares)


def group(name: str, jobs: Sequence[JobResult]) -> Group:
    """Return the sums of some jobs."""
    slowed = [each for job in jobs if (each := slowdown(job)) is not None]
    return Group(
        name=name,
        jobs=len(jobs),
        done=sum(job.state is JobState.DONE for job in jobs),
        never_started=sum(job.start is None for job in jobs),
        delay=spread(job.start - job.arrival for job in jobs if job.start is not None),
        completion=spread(job.end - job.arrival for job in jobs if job.end is not None),
        slowdown=math.fsum(slowed) / len(slowed) if slowed else None,
        gpu_milli_seconds=math.fsum(job.gpu_milli * (job.seconds or 0.0) for job in jobs if job.state is JobState.DONE),
        evictions=sum(job.evictions for job in jobs),
        failures=sum(job.failures for job in jobs),
    )


def _groups(jobs: Sequence[JobResult], name_of: Callable[[JobResult], str]) -> dict[str, list[JobResult]]:
    found: dict[str, list[JobResult]] = {}
    for job in jobs:
        found.setdefault(name_of(job), []).append(job)
    return found


def _tenants(jobs: Sequence[JobResult]) -> tuple[Group, ...]:
    found = _groups(jobs, lambda job: job.tenant)
    by_number = sorted(found, key=lambda name: (-len(found[name]), name))
    kept, rest = sorted(by_number[:MOST_TENANTS]), by_number[MOST_TENANTS:]
    groups = [group(name, found[name]) for name in kept]
    if rest:
        groups.append(group(OTHERS, [job for name in sorted(rest) for job in found[name]]))
    return tuple(groups)


def _sizes(jobs: Sequence[JobResult]) -> tuple[Group, ...]:
    found = _groups(jobs, lambda job: size_class(job.gpu_milli))
    order = [name for _, name in _SIZES] + [_LARGEST]
    return tuple(group(name, found[name]) for name in order if name in found)


def _fairness(jobs: Sequence[JobResult]) -> float | None:
    means = []
    for found in _groups(jobs, lambda job: job.tenant).values():
        slowed = [each for job in found if (each := slowdown(job)) is not None]
        if slowed:
            means.append(math.fsum(slowed) / len(slowed))
    return jain(means)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _rest(whole: float, part: float) -> float:
    """Return `whole` - `part`; 0 if no more than rounding is left, since a sum of times may miss the other by a bit."""
    rest = whole - part
    return 0.0 if abs(rest) <= 1e-12 * whole else rest


def measures(jobs: Sequence[JobResult], series: SeriesMaker) -> Measures:
    """Return the sums of a run."""
    lost = [
        math.fsum(job.lost_gpu_milli_seconds for job in jobs),
        math.fsum(job.lost_cpu_milli_seconds for job in jobs),
    ]
    total = dict(zip(LEVELS, series.totals, strict=True))
    gpus, allocated, running = total["gpu_milli"], total["gpu_allocated_milli"], total["gpu_running_milli"]
    fragmented, done = total["gpu_fragmented_milli"], _rest(running, lost[0])
    ends = [job.end for job in jobs if job.end is not None]
    first = min((job.arrival for job in jobs), default=0.0)
    return Measures(
        makespan=max(ends, default=first) - first,
        until=series.until,
        all=group("all", jobs),
        tenants=_tenants(jobs),
        sizes=_sizes(jobs),
        gpu_allocation=_share(allocated, gpus),
        gpu_utilisation=_share(done, gpus),
        cpu_allocation=_share(total["cpu_allocated_milli"], total["cpu_milli"]),
        cpu_utilisation=_share(_rest(total["cpu_running_milli"], lost[1]), total["cpu_milli"]),
        gpu_fragmentation=_share(fragmented, gpus),
        gpu_fragmentation_of_idle=_share(fragmented, _rest(gpus, allocated)),
        gpu_milli_seconds=gpus,
        allocated_gpu_milli_seconds=allocated,
        done_gpu_milli_seconds=done,
        lost_gpu_milli_seconds=lost[0],
        held_gpu_milli_seconds=_rest(allocated, running),
        evictions=sum(job.evictions for job in jobs),
        failures=sum(job.failures for job in jobs),
        fairness=_fairness(jobs),
    )
