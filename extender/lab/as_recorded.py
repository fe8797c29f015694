"""Measures what really happened in a recording like a simulation: makes a `Run` of the recorded jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from algorithm.fgd.needs import Need
from algorithm.model import Pod
from extender.lab.from_log import GivenUp, Recorded
from extender.lab.measures import measures
from extender.lab.results import Ended, JobResult, Run, Stay
from extender.lab.run.usage import ClusterUsage
from extender.lab.translate import need_of, node_of

#: The counts of the series.
_COUNTED = {Ended.EVICTED: "evictions", Ended.FAILED: "failures"}


class _Node(NamedTuple):
    name: str
    comes: bool


class _Job(NamedTuple):
    """A job comes, starts or ends."""

    job: JobResult
    what: str


class _Pod(NamedTuple):
    """A pod gets its place, or leaves it (`ended`)."""

    pod: Pod
    need: Need
    ended: Ended | None = None


class _Use(NamedTuple):
    """A pod begins to be of use, or ends."""

    need: Need
    sign: int


_What = _Node | _Job | _Pod | _Use | GivenUp


def as_recorded(recorded: Recorded, *, name: str, algorithm: str) -> Run:
    """Return the run that was recorded. A gang counts as running from its start on, also while one of its pods is made
    again."""
    levels = _Levels(recorded)
    for at, _, what in sorted(_changes(recorded), key=lambda change: change[:2]):
        levels.usage.pass_to(min(at, recorded.horizon))
        levels.apply(what)
    levels.usage.pass_to(recorded.horizon)
    series = levels.usage.series
    return Run(
        name=name,
        algorithm=algorithm,
        jobs=recorded.jobs,
        series=series.series(),
        measures=measures(recorded.jobs, series),
        stays=recorded.stays,
    )


class _Live:
    """A job that has come and is not over. `lacking`: of its pods, those that lost their places and have none again;
    `ended`: those that left, if nobody makes them again."""

    __slots__ = ("ended", "lacking", "runs", "started")

    def __init__(self) -> None:
        self.started = self.runs = False
        self.lacking = self.ended = 0


class _Levels:
    """The cluster over time."""

    def __init__(self, recorded: Recorded) -> None:
        self.usage = ClusterUsage(recorded.workload.jobs)
        self._jobs = {job.name: job for job in recorded.workload.jobs}
        self._has_end = {job.name: job.end is not None for job in recorded.jobs}
        self._live: dict[str, _Live] = {}
        self._nodes = {machine.name: node_of(machine).node for machine in recorded.workload.nodes}
        self._there: set[str] = set()
        for name in self._nodes:
            self._set_node(name, comes=True)

    def apply(self, what: _What) -> None:
        usage = self.usage
        match what:
            case _Node():
                self._set_node(what.name, comes=what.comes)
            case _Job(what="comes"):
                self._live[what.job.name] = _Live()
                usage.waiting_jobs += 1
                usage.waiting_pods += what.job.pods
                usage.series.count("arrivals")
            case _Job(what="starts"):
                live = self._live[what.job.name]
                live.started = True
                self._set_running(live)
            case _Job():
                self._is_over(what.job.name)
                usage.series.count("ends")
            case _Pod(ended=None):
                usage.place(what.pod, what.need)
                usage.waiting_pods -= 1
                if (again := self._live.get(what.pod.name)) is not None and again.lacking:
                    again.lacking -= 1
                    self._set_running(again)
            case _Pod(ended=Ended() as ended):
                usage.leave(what.pod.uid)
                self._left(what.pod.name, ended)
                if ended in _COUNTED:
                    usage.series.count(_COUNTED[ended])
            case _Use():
                usage.gpus_running += what.sign * what.need.all_milli
                usage.cpus_running += what.sign * what.need.cpu
            case GivenUp():
                usage.waiting_pods -= what.pods
                if what.job in self._live and not self._live[what.job].runs:
                    self._is_over(what.job)

    def _left(self, name: str, ended: Ended) -> None:
        """Process that a pod left its node: it waits for another place, if it is not done and is made again."""
        live, job = self._live.get(name), self._jobs[name]
        waits = ended is not Ended.DONE and job.again
        self.usage.waiting_pods += waits
        if live is None:
            return
        live.lacking += waits
        self._set_running(live)
        live.ended += not job.again
        if live.ended == job.pods and not self._has_end[name]:
            self._is_over(name)

    def _set_running(self, live: _Live) -> None:
        """Count a job as running if it has started and none of its pods lacks a place, else as waiting."""
        runs = live.started and not live.lacking
        if runs != live.runs:
            live.runs = runs
            self.usage.running_jobs += 1 if runs else -1
            self.usage.waiting_jobs += -1 if runs else 1

    def _is_over(self, name: str) -> None:
        if self._live.pop(name).runs:
            self.usage.running_jobs -= 1
        else:
            self.usage.waiting_jobs -= 1

    def _set_node(self, name: str, *, comes: bool) -> None:
        if comes and name not in self._there:
            self._there.add(name)
            self.usage.add_node(self._nodes[name])
        elif not comes and name in self._there:
            self._there.remove(name)
            self.usage.remove_node(name)


def _changes(recorded: Recorded) -> Iterator[tuple[float, int, _What]]:
    """What happens, each with its time and its rank among what happens then: what leaves room comes first, but not
    before it took that room."""
    for failure in recorded.workload.failures:
        yield failure.at, 2, _Node(failure.node, comes=False)
        if failure.until is not None:
            yield failure.until, 1, _Node(failure.node, comes=True)
    first: dict[str, float] = {}
    for stay in recorded.stays:
        first[stay.job] = min(stay.start, first.get(stay.job, stay.start))
    for job in recorded.jobs:  # pods of a gang may have their places before its last pod comes
        yield min(job.arrival, first.get(job.name, job.arrival)), 3, _Job(job, "comes")
        if job.start is not None:
            yield job.start, 5, _Job(job, "starts")
            if job.end is not None:
                yield job.end, 0 if job.end > job.start else 6, _Job(job, "ends")
    for given_up in recorded.given_up:
        yield given_up.at, 6, given_up
    yield from _of_stays(recorded)


def _of_stays(recorded: Recorded) -> Iterator[tuple[float, int, _What]]:
    known = {machine.name for machine in recorded.workload.nodes}
    needs = {job.name: need_of(job) for job in recorded.workload.jobs}
    results = {job.name: job for job in recorded.jobs}
    made: Counter[tuple[str, int]] = Counter()
    for stay in recorded.stays:
        if stay.node not in known:
            continue
        made[stay.job, stay.pod] += 1
        uid = f"{stay.job}/{stay.pod}/{made[stay.job, stay.pod]}"
        need, pod = needs[stay.job], Pod(namespace="", name=stay.job, uid=uid, node_name=stay.node)
        yield stay.start, 4, _Pod(pod, need)
        if stay.ended is not Ended.CUT:
            yield stay.end, 0 if stay.end > stay.start else 6, _Pod(pod, need, stay.ended)
        if (since := _used_since(stay, results[stay.job])) is not None:
            yield since, 5, _Use(need, 1)
            yield stay.end, 0, _Use(need, -1)


def _used_since(stay: Stay, job: JobResult) -> float | None:
    """Since when the pod is of use: a gang needs all of its pods. None: it never is."""
    since = None if job.start is None else max(stay.start, job.start) if job.gang else stay.start
    return since if since is not None and since < stay.end else None
