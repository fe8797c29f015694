"""What `hived` owes to the jobs of a simulation, from docs/algorithm-hived.md alone.

A run's results say when jobs ran, and not where. So the laws are about sums and packings of what runs at one time:
where a job was evicted, or its pods start one by one, bounds are used that are right in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from tests.conformance.lab_adversary.hived_worlds import NOBODY, Cluster, Shape, spec_of
from tests.conformance.lab_adversary.laws import DEFAULTS

Data = dict[str, Any]
#: Seconds within which a promise is kept: evictions and their back-offs take time.
PATIENCE = 2.0
#: Seconds after the beginning of a run at which devices are counted: those that ended at that moment have gone.
_LATER = 1e-4


class _Job:
    """A job of the workload with its result."""

    def __init__(self, asked: Data, result: Data) -> None:
        self.name, self.tenant, self.result = asked["name"], asked["tenant"], DEFAULTS | result
        self.size = asked["requests"]["gpu"] // 1000
        self.pods = asked["pods"]
        #: How many of its pods have places together, or not at all.
        self.together = asked["pods"] if asked["gang"] else 1
        self.is_guaranteed = asked["priority"] >= 0
        self.arrival: float = asked["arrival"]
        self.seconds: float = asked["seconds"]
        spec = spec_of(asked)
        self.pin: str = spec.get("pinnedCellId", "")
        self.is_lazy: bool = spec.get("lazyPreemptionEnable", False)
        self.model: str = "".join(asked.get("gpu_models", []))
        self.first: float | None = self.result["first_start"]
        self.end: float | None = self.result["end"]
        #: When the last of its runs, or of its pods, began.
        self.last = None if self.end is None else self.end - self.seconds
        self.is_done = self.result["state"] == "done"

    def runs(self, at: float) -> bool:
        """Whether `together` of its pods certainly hold their devices then."""
        # Where each pod runs from its own start, the last one is certain, if nobody disturbed the job.
        is_calm = not self.result["evictions"] and not self.result["failures"]
        is_certain = self.last is not None and (self.together == self.pods or is_calm)
        return is_certain and self.last <= at < self.end

    def span(self) -> tuple[float, float]:
        """The time in which it may hold devices, from the first pod that had a place on."""
        never = float("inf")
        return never if self.first is None else self.first, never if self.end is None else self.end


def _slots(cluster: Cluster, job: _Job, tenant: str) -> dict[str, int]:
    """How many such pods fit into what the tenant is promised, by chain; "": of everybody's hardware."""
    found: dict[str, int] = defaultdict(int)

    def add(shape: Shape, kind: str, number: int) -> None:
        if job.model in ("", shape.path[-1]):
            found[shape.path[0]] += number * shape.slots(kind, job.size)

    if job.pin:
        shape = cluster.shapes[cluster.chain_of[cluster.pinned[job.pin][1]]]
        return {shape.path[0]: shape.slots(shape.host, job.size)}
    if tenant:
        for (owner, chain, kind), number in cluster.promised.items():
            if owner == tenant:
                add(cluster.shapes[chain], kind, number)
        return found
    pinned = {machine for _, machine in cluster.pinned.values()}
    for machine in cluster.nodes.keys() - pinned:
        shape = cluster.shapes[cluster.chain_of[machine]]
        add(shape, shape.host, 1)
    return found


def _can_run(cluster: Cluster, job: _Job) -> bool:
    """Whether it has a place when nothing else runs and no machine is bad."""
    if job.tenant == NOBODY or job.tenant not in cluster.tenants:
        return False
    return max(_slots(cluster, job, job.tenant if job.is_guaranteed else "").values(), default=0) >= job.together


def _ends(cluster: Cluster, jobs: Iterable[_Job]) -> Iterator[str]:
    """All jobs are finite and all machines come back, so each job that can run is done in the end."""
    for job in jobs:
        can = _can_run(cluster, job)
        if can and not job.is_done:
            yield f"{job.name} of {job.tenant} can run, and is {job.result['state']} in the end"
        surely_not = job.is_guaranteed and not cluster.switches.get("combineCells")
        if not can and surely_not and job.first is not None:
            yield f"{job.name} of {job.tenant} has more than {job.tenant} is promised"


def _packed(sizes: Iterable[int], rooms: Iterable[int]) -> bool:
    """Whether pods of these sizes fit, each into one room. Exact for sizes of which each divides the larger ones."""
    free = sorted(rooms, reverse=True)
    for size in sorted(sizes, reverse=True):
        for number, room in enumerate(free):
            if room >= size:
                free[number] -= size
                break
        else:
            return False
    return True


def _moments(cluster: Cluster, workload: Data, jobs: list[_Job]) -> Iterator[str]:
    """No device has two users, and nobody has more than is promised without being opportunistic."""
    for at in sorted({job.last + _LATER for job in jobs if job.last is not None}):
        running = [job for job in jobs if job.runs(at)]
        gone = {each["node"] for each in workload["failures"] if each["at"] < at < each["until"]}
        rooms = [gpus for name, gpus in cluster.nodes.items() if name not in gone]
        sizes = [job.size for job in running for _ in range(job.together)]
        exact = [size for size in sizes if size & (size - 1) == 0]
        if sum(sizes) > sum(rooms) or not _packed(exact, rooms):
            yield f"at {at}, pods with {sizes} devices run on machines with {rooms}"
        for tenant in cluster.tenants:
            for pin in ("", *cluster.pinned):
                used = sum(
                    job.size * job.together
                    for job in running
                    if (job.tenant, job.pin) == (tenant, pin) and job.is_guaranteed and not job.is_lazy
                )
                most = cluster.nodes[cluster.pinned[pin][1]] if pin else _promised(cluster, tenant)
                if used > most:
                    yield f"at {at}, guaranteed jobs of {tenant} have {used} devices, {most} are promised {pin}"


def _promised(cluster: Cluster, tenant: str) -> int:
    cells = ((chain, kind, number) for (owner, chain, kind), number in cluster.promised.items() if owner == tenant)
    return sum(number * cluster.shapes[chain].devices_of[kind] for chain, kind, number in cells)


def _gaps(start: float, end: float, busy: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """The parts of a time in which none of these spans is."""
    for begins, ends in sorted(busy):
        if begins > start:
            yield start, min(begins, end)
        start = max(start, ends)
        if start >= end:
            return
    yield start, end


def _starved(cluster: Cluster, workload: Data, jobs: list[_Job], until: float) -> Iterator[str]:
    """A job waits although nothing guaranteed of its tenant uses or wants what the tenant is promised."""
    down = [(each["at"], each["until"] + 1) for each in workload["failures"]]
    for job in jobs:
        if not job.is_guaranteed or not _can_run(cluster, job):
            continue
        end = job.first if job.first is not None else until
        others = [other for other in jobs if other is not job and other.tenant == job.tenant and other.is_guaranteed]
        rivals = [other for other in others if other.pin == job.pin]
        busy = down + [other.span() for other in rivals]
        for begins, ends in _gaps(job.arrival, end, busy):
            if ends - begins > PATIENCE:
                yield f"{job.name} of {job.tenant} waits from {begins} to {ends}, and all that is promised is free"
        yield from _crowded_out(cluster, job, rivals, down, end)


def _crowded_out(
    cluster: Cluster, job: _Job, rivals: list[_Job], down: list[tuple[float, float]], end: float
) -> Iterator[str]:
    """The same where others of the tenant run, if all are alike: then what is free is a number of places."""
    slots = _slots(cluster, job, job.tenant)
    if len(slots) != 1 or any((other.size, other.model) != (job.size, job.model) for other in rivals):
        return
    (places,) = slots.values()
    edges = sorted({job.arrival, end, *(edge for other in rivals for edge in other.span() if job.arrival < edge < end)})
    free = []
    for begins, ends in pairwise(edges):
        used = sum(other.pods for other in rivals if other.span()[0] <= begins and other.span()[1] > begins)
        if used + job.together > places:
            free.append((begins, ends))
    for begins, ends in _gaps(job.arrival, end, down + free):
        if ends - begins > PATIENCE:
            yield f"{job.name} of {job.tenant} waits from {begins} to {ends}, and enough of {places} places is free"


def owed(cluster: Cluster, workload: Data, run: Data) -> list[str]:
    """Return what this run owed to a job and did not give, or gave twice, as sentences."""
    results = {job["name"]: job for job in run["jobs"]}
    jobs = [_Job(job, results[job["name"]]) for job in workload["jobs"]]
    until = run["measures"]["until"]
    return [*_ends(cluster, jobs), *_moments(cluster, workload, jobs), *_starved(cluster, workload, jobs, until)]
