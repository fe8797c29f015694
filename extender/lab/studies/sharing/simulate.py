"""When each job starts: time goes from event to event, and whenever something happened, those that wait are looked at.

Jobs are looked at in the order of arrival, guaranteed ones first. A job that does not fit is passed over, so smaller
ones may overtake it, as they do in Philly. An opportunistic job that is evicted waits again, at its old place, and
starts from its beginning.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from extender.lab.studies.sharing.clusters import Cluster, Hived, Private, Quota
from extender.lab.studies.sharing.trace import Job, Tenant

_END, _ARRIVAL = 0, 1


@dataclass
class Outcome:
    """Times in minutes. `delay` is from arrival to start, by the job's number; for guaranteed jobs only."""

    delay: dict[int, float] = field(default_factory=dict)
    #: Opportunistic jobs that ran to their end, and how often one had to make room.
    opportunistic: int = 0
    evictions: int = 0


@dataclass(frozen=True)
class Comparison:
    """The same guaranteed jobs under three arrangements."""

    tenants: list[Tenant]
    jobs: list[Job]
    private: Outcome
    quota: Outcome
    hived: Outcome

    def of(self, tenant: Tenant) -> list[Job]:
        return [job for job in self.jobs if job.guaranteed and job.tenant == tenant.name]

    def excess(self, shared: Outcome, jobs: Iterable[Job]) -> list[float]:
        """How much later than in the tenant's own cluster each job starts, in minutes; 0 if not later."""
        return [max(0.0, shared.delay[job.number] - self.private.delay[job.number]) for job in jobs]


def compare(tenants: list[Tenant], jobs: list[Job]) -> Comparison:
    """Opportunistic jobs run under HiveD only: nobody else could tell them from the others, or end them."""
    guaranteed = [job for job in jobs if job.guaranteed]
    return Comparison(
        tenants,
        jobs,
        private=simulate(Private(tenants), guaranteed),
        quota=simulate(Quota(tenants), guaranteed),
        hived=simulate(Hived(tenants), jobs),
    )


def simulate(cluster: Cluster, jobs: Iterable[Job]) -> Outcome:
    return _Simulation(cluster, jobs).run()


class _Simulation:
    def __init__(self, cluster: Cluster, jobs: Iterable[Job]) -> None:
        self._cluster = cluster
        #: What happens, ends before arrivals: (minute, kind, job, turn). An end counts only in its own turn.
        self._events = [(job.arrival, _ARRIVAL, job, 0) for job in jobs]
        heapify(self._events)
        self._guaranteed: list[Job] = []
        self._opportunistic: list[Job] = []
        self._turns: dict[int, int] = {}
        self._serial = count(1)
        self._outcome = Outcome()

    def run(self) -> Outcome:
        while self._events:
            now, kind, job, turn = heappop(self._events)
            self._happen(kind, job, turn)
            # Guaranteed ones first: the others would only have to go again. They never wait for one of those to end.
            if job.guaranteed:
                self._serve(self._guaranteed, now)
            self._serve(self._opportunistic, now)
        return self._outcome

    def _happen(self, kind: int, job: Job, turn: int) -> None:
        if kind == _ARRIVAL:
            (self._guaranteed if job.guaranteed else self._opportunistic).append(job)
        elif turn == self._turns.get(job.number):
            self._cluster.remove(job)
            if not job.guaranteed:
                self._outcome.opportunistic += 1

    def _serve(self, queue: list[Job], now: float) -> None:
        """Whoever fits may start. Where one job did not fit, the tenant's next of that size does not either."""
        left: list[Job] = []
        too_large: set[tuple[str, int]] = set()
        for job in queue:
            kind = (job.tenant, job.devices)
            evicted = None if kind in too_large else self._cluster.place(job)
            if evicted is None:
                too_large.add(kind)
                left.append(job)
            else:
                self._start(job, evicted, now)
        queue[:] = left

    def _start(self, job: Job, evicted: list[Job], now: float) -> None:
        turn = self._turns[job.number] = next(self._serial)
        heappush(self._events, (now + job.duration, _END, job, turn))
        if job.guaranteed:
            self._outcome.delay[job.number] = now - job.arrival
        for each in evicted:
            self._outcome.evictions += 1
            del self._turns[each.number]
            insort(self._opportunistic, each)
