"""Jobs of several tenants, drawn with a seed from what was published of Microsoft's Philly clusters.

Philly is the trace of Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads"
(USENIX ATC 2019). Sizes and durations follow the fit to it with which Narayanan et al., "Heterogeneity-Aware Cluster
Scheduling Policies for Deep Learning Workloads" (OSDI 2020), generate theirs; arrivals are Poisson, as there. One
tenant trains on whole machines only: that is who suffers from sharing, as Zhao et al. found, "HiveD: Sharing a GPU
Cluster for Deep Learning with Guarantees" (OSDI 2020).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log
from typing import NamedTuple

MACHINE = 8
MINUTES_A_DAY = 24 * 60
#: Share of jobs by devices.
PHILLY = {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}
WHOLE_MACHINES = {8: 0.8, 16: 0.2}
#: Minutes are 10 to the power of something uniform: share of jobs, and from where to where.
_DURATIONS = ((0.8, 1.5, 3.0), (0.2, 3.0, 4.0))


@dataclass(frozen=True)
class Tenant:
    """`load` is what share of its machines' time its guaranteed jobs need, `idle` what its opportunistic ones would."""

    name: str
    machines: int
    load: float
    sizes: Mapping[int, float]
    idle: float = 0.15


class Job(NamedTuple):
    """Times in minutes. A job of more than a machine has a pod on each of several whole ones."""

    number: int
    tenant: str
    devices: int
    arrival: float
    duration: float
    guaranteed: bool

    @property
    def pods(self) -> int:
        return max(1, self.devices // MACHINE)

    @property
    def devices_per_pod(self) -> int:
        return min(self.devices, MACHINE)


def draw(tenants: Iterable[Tenant], days: float, seed: int) -> list[Job]:
    """All jobs that arrive within so many days, in the order of arrival."""
    drawn: list[Job] = []
    for tenant in tenants:
        for guaranteed, load in ((True, tenant.load), (False, tenant.idle)):
            # Each stream by itself: what one tenant does changes no other's jobs.
            rng = random.Random(f"{seed}/{tenant.name}/{guaranteed}")  # noqa: S311 - jobs, no secrets
            drawn += _stream(rng, tenant, load, days * MINUTES_A_DAY, guaranteed=guaranteed)
    drawn.sort(key=lambda job: (job.arrival, job.tenant))
    return [job._replace(number=number) for number, job in enumerate(drawn)]


def _stream(rng: random.Random, tenant: Tenant, load: float, until: float, *, guaranteed: bool) -> Iterable[Job]:
    sizes, shares = list(tenant.sizes), list(tenant.sizes.values())
    device_minutes = _mean_minutes() * sum(size * share for size, share in tenant.sizes.items())
    between = device_minutes / (load * tenant.machines * MACHINE)
    now = rng.expovariate(1 / between)
    while now < until:
        yield Job(0, tenant.name, rng.choices(sizes, shares)[0], now, _minutes(rng), guaranteed)
        now += rng.expovariate(1 / between)


def _minutes(rng: random.Random) -> float:
    _, low, high = rng.choices(_DURATIONS, [share for share, _, _ in _DURATIONS])[0]
    return float(10 ** rng.uniform(low, high))


def _mean_minutes() -> float:
    return sum(share * (10**high - 10**low) / (log(10) * (high - low)) for share, low, high in _DURATIONS)
