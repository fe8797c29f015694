"""A workload of training jobs, single pods and gangs, for measuring the simulator."""

from __future__ import annotations

from random import Random

from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode, Workload

_MEAN = 3600.0


def workload_of(*, pods: int, nodes: int, load: float, parts: bool = False, seed: int = 1) -> Workload:
    """So many pods, which need `load` of the GPUs of so many nodes, eight each. `parts`: parts of GPUs, no gangs."""
    random = Random(seed)
    machines = tuple(MachineNode(f"n{at}", {CPU: 96_000, MEMORY: 512 << 30, GPU: 8000}, "A100") for at in range(nodes))
    jobs: list[Job] = []
    made, at = 0, 0.0
    while made < pods:
        members = 1 if parts else random.choice((1, 1, 1, 1, 2, 4, 8))
        milli = random.choice((200, 300, 500, 1000, 2000, 8000) if parts else (1000, 1000, 2000, 4000, 8000))
        milli = 8000 if members > 1 else milli
        cores = random.randrange(1, 17) * 1000 if parts else random.choice((1, 2, 4)) * milli
        requests = {CPU: cores, MEMORY: 4 << 30, GPU: milli}
        seconds, tenant = random.expovariate(1 / _MEAN), f"t{random.randrange(8)}"
        jobs.append(Job(f"j{len(jobs)}", at, requests, seconds, members, gang=members > 1, tenant=tenant))
        at += random.expovariate(1.0) * members * milli * _MEAN / (nodes * 8000 * load)
        made += members
    return Workload("bench", tuple(jobs), machines)
