"""Random clusters of `hived` and workloads for them, from docs/algorithm-hived.md and docs/simulate.md alone.

What is promised is cut out of real hardware, so all promises fit at once. No code of ours is used.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

Data = dict[str, Any]
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
TENANTS = ("a", "b", "c")
#: A virtual cluster that no configuration has.
NOBODY = "nobody"


@dataclass(frozen=True)
class Shape:
    """The cells of one chain. `path` has its types from the top down, the device last; sizes are in devices."""

    path: tuple[str, ...]
    devices_of: dict[str, int]
    host: str
    children: dict[str, int]

    def slots(self, kind: str, size: int) -> int:
        """How many pods of `size` devices fit into a cell of this type, each on one machine."""
        inside = self.devices_of[kind]
        machine = min(inside, self.devices_of[self.host])
        return inside // machine * (machine // size)


@dataclass
class Cluster:
    """`nodes` has the devices of each machine, `chain_of` its chain.

    `promised` counts cells by tenant, chain and type.
    """

    shapes: dict[str, Shape] = field(default_factory=dict)
    physical: list[Data] = field(default_factory=list)
    nodes: dict[str, int] = field(default_factory=dict)
    chain_of: dict[str, str] = field(default_factory=dict)
    promised: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    #: The tenant and the machine of each pinned cell.
    pinned: dict[str, tuple[str, str]] = field(default_factory=dict)
    switches: Data = field(default_factory=dict)

    @property
    def tenants(self) -> list[str]:
        return sorted({tenant for tenant, _, _ in self.promised} | {tenant for tenant, _ in self.pinned.values()})

    def settings(self) -> Data:
        types = {
            kind: {
                "childCellType": shape.path[number + 1],
                "childCellNumber": shape.children[kind],
                **({"isNodeLevel": True} if kind == shape.host else {}),
            }
            for shape in self.shapes.values()
            for number, kind in enumerate(shape.path[:-1])
        }
        virtual: Data = {tenant: {} for tenant in self.tenants}
        for (tenant, chain, kind), number in sorted(self.promised.items()):
            path = self.shapes[chain].path
            cell = {"cellType": ".".join(path[: path.index(kind) + 1]), "cellNumber": number}
            virtual[tenant].setdefault("virtualCells", []).append(cell)
        for name, (tenant, _) in sorted(self.pinned.items()):
            virtual[tenant].setdefault("pinnedCells", []).append({"pinnedCellId": name})
        layout = {"cellTypes": types, "physicalCells": self.physical}
        return {"physicalCluster": layout, "virtualClusters": virtual, **self.switches}


def _shape(random: Random, name: str) -> Shape:
    devices = random.choice([1, 2, 4, 4, 8])
    path, sizes, children = [f"{name}-host", f"{name}-gpu"], {f"{name}-gpu": 1, f"{name}-host": devices}, {}
    children[f"{name}-host"] = devices
    if devices > 2 and random.random() < 0.5:
        path.insert(1, f"{name}-socket")
        sizes[f"{name}-socket"], children[f"{name}-socket"], children[f"{name}-host"] = devices // 2, devices // 2, 2
    if random.random() < 0.5:
        path.insert(0, f"{name}-rack")
        children[f"{name}-rack"] = random.choice([2, 3])
        sizes[f"{name}-rack"] = devices * children[f"{name}-rack"]
    return Shape(tuple(path), sizes, f"{name}-host", children)


def _promise(random: Random, cluster: Cluster, shape: Shape, kind: str, machines: list[str]) -> None:
    """Give this cell to somebody, or leave it free, or give parts of it."""
    pins = [name for name, (_, machine) in cluster.pinned.items() if machine in machines]
    if pins and kind == shape.host:
        return
    if not pins and random.random() < 0.5:
        cluster.promised[random.choice(TENANTS), shape.path[0], kind] += 1
        return
    if kind == shape.path[-1] or (not pins and random.random() < 0.4):
        return
    child = shape.path[shape.path.index(kind) + 1]
    for number in range(shape.children[kind]):
        _promise(random, cluster, shape, child, [machines[number]] if child == shape.host else machines)


def cluster_of(random: Random) -> Cluster:
    """Return up to eight machines in one or two chains, with up to three virtual clusters."""
    cluster = Cluster()
    for name in ("x", "y")[: random.choice([1, 1, 2])]:
        shape = _shape(random, name)
        cluster.shapes[shape.path[0]] = shape
        for _ in range(random.randint(1, 2 if len(shape.children) > 1 else 4)):
            top = shape.path[0]
            number = 1 if top == shape.host else shape.children[top]
            machines = [f"node-{len(cluster.nodes) + each:02}" for each in range(number)]
            cells: list[Data] = [{"cellAddress": machine} for machine in machines]
            for machine, cell in zip(machines, cells, strict=True):
                cluster.nodes[machine], cluster.chain_of[machine] = shape.devices_of[shape.host], top
                if random.random() < 0.1:
                    cell["pinnedCellId"] = f"pin-{machine}"
                    cluster.pinned[f"pin-{machine}"] = (random.choice(TENANTS), machine)
            tops = {"cellType": top, "cellChildren": cells} if top != shape.host else {"cellType": top, **cells[0]}
            cluster.physical.append(tops)
            _promise(random, cluster, shape, top, machines)
    switches = ("promoteLazilyPreempted", "keepHealthyCellsWhole", "combineCells", "obeyGangRelease", "bindUnoffered")
    cluster.switches = {name: True for name in switches if random.random() < 0.25}
    return cluster


def _template(random: Random, job: Data, more: Data) -> Data:
    """The pod as its owner writes it: with fields that a job of a workload does not have."""
    spec: Data = {
        "virtualCluster": job["tenant"],
        "priority": job["priority"],
        "leafCellNumber": job["requests"]["gpu"] // 1000,
        **more,
    }
    if random.random() < 0.5:
        spec["ignoreK8sSuggestedNodes"] = False
    if job.get("gang"):
        member = {"podNumber": job["pods"], "leafCellNumber": spec["leafCellNumber"]}
        spec["affinityGroup"] = {"name": job["name"], "members": [member]}
    annotations = [[SPEC, json.dumps(spec)]]
    return {"namespace": "default", "name": job["name"], "controlled": True, "annotations": annotations}


def _job(random: Random, cluster: Cluster, number: int, arrival: float, priorities: tuple[int, ...]) -> Data:
    tenant = NOBODY if random.random() < 0.02 else random.choice(cluster.tenants or [NOBODY])
    most = max(cluster.nodes.values())
    cells = {cluster.shapes[chain].devices_of[kind] for owner, chain, kind in cluster.promised if owner == tenant}
    usual = [min(size, most) for size in sorted(cells)] or [most]
    size = random.choice([1, 1, 2, 3, max(1, most // 2), most + 1]) if random.random() < 0.4 else random.choice(usual)
    job: Data = {
        "name": f"job-{number:03}",
        "arrival": arrival,
        "seconds": random.choice([1.0, 60.0, 300.0, round(random.expovariate(1 / 120) + 0.001, 3)]),
        "requests": {"cpu": 10, "gpu": size * 1000},
        "pods": random.choice([1, 1, 1, 1, 2, 2, 3, 4]),
        "gang": random.random() < 0.6,
        "priority": -1 if random.random() < 0.4 else random.choice(priorities),
        "tenant": tenant,
    }
    if job["priority"] < 0 and random.random() < 0.5:
        job["seconds"] = 5000.0
    leafs = sorted(shape.path[-1] for shape in cluster.shapes.values())
    if random.random() < 0.2:
        job["gpu_models"] = [random.choice([*leafs, "none"])]
    pins = [name for name, (tenant, _) in cluster.pinned.items() if tenant == job["tenant"]]
    more: Data = {}
    if pins and job["priority"] >= 0 and random.random() < 0.5:
        more["pinnedCellId"] = random.choice(sorted(pins))
    if random.random() < 0.2:
        more["lazyPreemptionEnable"] = True
    if more and "gpu_models" not in job:
        job["templates"] = [_template(random, job, more)]
    return job


def _flood(random: Random, cluster: Cluster) -> Data:
    """An opportunistic job that takes every device at the beginning, and for long."""
    requests = {"cpu": 10, "gpu": 1000}
    pods, tenant = sum(cluster.nodes.values()), random.choice(cluster.tenants)
    whole = {"pods": pods, "gang": False, "tenant": tenant, "priority": -1}
    return {"name": "flood", "arrival": 0.0, "seconds": 5000.0, "requests": requests, **whole}


def _failures(random: Random, cluster: Cluster) -> list[Data]:
    found: list[Data] = []
    for node in cluster.nodes:
        at = round(random.uniform(0, 600), 2)
        for _ in range(random.randint(0, 2)):
            until = round(at + random.choice([1.0, 30.0, 200.0]), 3)
            found.append({"node": node, "at": at, "until": until})
            at = round(until + random.choice([0.5, 60.0, 300.0]), 3)
    return sorted(found, key=lambda failure: failure["at"])


def workload_of(random: Random, cluster: Cluster) -> Data:
    """Return up to 40 jobs of its tenants, in some of them with failures of nodes."""
    priorities = random.choice([(0,), (0, 1), (0, 5, 1000)])
    jobs, arrival = [], 0.0
    if cluster.tenants and random.random() < 0.5:
        jobs.append(_flood(random, cluster))
    for number in range(random.randint(1, 40)):
        arrival = round(arrival + random.choice([0.0, 0.0, 1.0, random.expovariate(1 / 30)]), 3)
        jobs.append(_job(random, cluster, number, arrival, priorities))
    capacity = {name: {"cpu": 64000, "memory": 64 << 30, "gpu": gpus * 1000} for name, gpus in cluster.nodes.items()}
    nodes = [{"name": name, "capacity": has} for name, has in capacity.items()]
    failures = _failures(random, cluster) if random.random() < 0.4 else []
    head = {"format": "waggle-workload", "version": 1, "name": "cells"}
    return {**head, "nodes": nodes, "jobs": jobs, "failures": failures}


def spec_of(job: Data) -> Data:
    """What the job asks of HiveD beside its fields."""
    templates = job.get("templates")
    found: Data = json.loads(templates[0]["annotations"][0][1]) if templates else {}
    return found
