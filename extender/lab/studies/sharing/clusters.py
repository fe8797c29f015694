"""Three ways to share machines: each tenant has its own, all share under a quota of devices, or HiveD.

What the simulation asks of them is `place` and `remove`. Tenants' own clusters and HiveD are the real algorithm,
driven as the extender drives it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from algorithm.hived.algorithm import HivedAlgorithm
from algorithm.hived.formats.podspec import SPEC
from algorithm.hived.settings import HivedSettings
from algorithm.interface import Bind, Phase, Preempt, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from extender.lab.studies.sharing.trace import MACHINE, Job, Tenant

_RACK = 4
_CELL_TYPES = {
    "socket": {"childCellType": "gpu", "childCellNumber": MACHINE // 2},
    "host": {"childCellType": "socket", "childCellNumber": 2, "isNodeLevel": True},
    "rack": {"childCellType": "host", "childCellNumber": _RACK},
}


class Cluster(Protocol):
    """`place` gives the jobs that had to end for this one, or None if there is no place now; `remove` ends a job."""

    def place(self, job: Job) -> list[Job] | None: ...

    def remove(self, job: Job) -> None: ...


class Hived:
    """A cluster under HiveD: each tenant is promised its machines, opportunistic jobs have what is idle."""

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        tenants = list(tenants)
        number = sum(tenant.machines for tenant in tenants)
        names = [f"host-{each}" for each in range(-(-number // _RACK) * _RACK)]
        racks = [
            {"cellType": "rack", "cellChildren": [{"cellAddress": name} for name in names[first : first + _RACK]]}
            for first in range(0, len(names), _RACK)
        ]
        promised = {
            tenant.name: {"virtualCells": [{"cellType": "rack.host", "cellNumber": tenant.machines}]}
            for tenant in tenants
        }
        physical = {"cellTypes": _CELL_TYPES, "physicalCells": racks}
        self._algorithm = HivedAlgorithm(
            HivedSettings.model_validate({"physicalCluster": physical, "virtualClusters": promised})
        )
        # Machines that fill up the last rack do not exist.
        self._offered = SuggestedNodes(names[:number])
        for name in self._offered:
            self._algorithm.add_node(Node(name=name))
        self._running: dict[str, tuple[Job, list[Pod]]] = {}

    def place(self, job: Job) -> list[Job] | None:
        placed: list[Pod] = []
        evicted: list[Job] = []
        for pod in _pods(job):
            answer = self._algorithm.schedule(pod, self._offered, Phase.FILTERING)
            if isinstance(answer, Wait) and not placed:
                return None
            if isinstance(answer, Preempt):
                evicted += self._evict(answer)
                answer = self._algorithm.schedule(pod, self._offered, Phase.FILTERING)
            assert isinstance(answer, Bind), answer
            placed.append(pod.placed(answer.node, answer.annotations))
            self._algorithm.add_allocated_pod(placed[-1])
        self._running[_group(job)] = (job, placed)
        return evicted

    def _evict(self, answer: Preempt) -> list[Job]:
        """A job whose pods have to go ends as a whole, and at once, so nothing need be reserved meanwhile."""
        groups = dict.fromkeys(victim.uid.rpartition("-")[0] for victim in answer.victims)
        jobs = [self._running[group][0] for group in groups]
        for job in jobs:
            self.remove(job)
        return jobs

    def remove(self, job: Job) -> None:
        _, pods = self._running.pop(_group(job))
        for pod in pods:
            self._algorithm.delete_allocated_pod(pod)


def _group(job: Job) -> str:
    return f"job-{job.number}"


def _pods(job: Job) -> list[Pod]:
    group = _group(job)
    spec = (
        f"virtualCluster: {job.tenant}\npriority: {0 if job.guaranteed else -1}\nleafCellType: gpu\n"
        f"leafCellNumber: {job.devices_per_pod}\naffinityGroup:\n  name: {group}\n  members:\n"
        f"  - podNumber: {job.pods}\n    leafCellNumber: {job.devices_per_pod}\n"
    )
    names = [f"{group}-{number}" for number in range(job.pods)]
    return [Pod(namespace="sharing", name=name, uid=name, annotations=((SPEC, spec),)) for name in names]


class Private:
    """Each tenant has its machines for itself."""

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        self._clusters = {tenant.name: Hived([tenant]) for tenant in tenants}

    def place(self, job: Job) -> list[Job] | None:
        return self._clusters[job.tenant].place(job)

    def remove(self, job: Job) -> None:
        self._clusters[job.tenant].remove(job)


class Quota:
    """All machines are everybody's; a tenant may use as many devices as its machines would have.

    A pod goes to the fullest machine that has room, so that whole machines stay free as long as can be. Nobody is
    evicted: a quota of devices says nothing of which ones.
    """

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        tenants = list(tenants)
        self._left = {tenant.name: tenant.machines * MACHINE for tenant in tenants}
        self._free = [MACHINE] * sum(tenant.machines for tenant in tenants)
        self._running: dict[int, list[int]] = {}

    def place(self, job: Job) -> list[Job] | None:
        if job.devices > self._left[job.tenant]:
            return None
        found: list[int] = []
        for _ in range(job.pods):
            fitting = (each for each, free in enumerate(self._free) if free >= job.devices_per_pod)
            machine = min(fitting, key=self._free.__getitem__, default=None)
            if machine is None:
                self._give_back(job, found)
                return None
            self._free[machine] -= job.devices_per_pod
            found.append(machine)
        self._left[job.tenant] -= job.devices
        self._running[job.number] = found
        return []

    def remove(self, job: Job) -> None:
        self._left[job.tenant] += job.devices
        self._give_back(job, self._running.pop(job.number))

    def _give_back(self, job: Job, machines: list[int]) -> None:
        for machine in machines:
            self._free[machine] += job.devices_per_pod
