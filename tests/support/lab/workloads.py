"""Random workloads for tests of the simulator, and a simulator that is too simple to be wrong."""

from __future__ import annotations

from random import Random

from extender.lab.workload import CPU, GPU, Job, MachineNode, NodeFailure, Workload


def nodes(number: int, gpus: int = 8) -> tuple[MachineNode, ...]:
    return tuple(MachineNode(f"n{at}", {CPU: 64_000, GPU: gpus * 1000}, "A100") for at in range(number))


def random_workload(
    seed: int,
    *,
    jobs: int = 40,
    machines: int = 3,
    urgent: bool = False,
    parts: bool = False,
    failures: int = 0,
    gangs: bool = True,
) -> Workload:
    """Jobs that overload the machines for a while; gangs among them. Times are whole seconds."""
    random = Random(seed)
    made, at = [], 0
    for number in range(jobs):
        at += random.choice((0, 0, 1, 5, 20, 60))
        pods = random.choice((1, 1, 1, 2, 3))
        milli = random.choice((1000, 2000, 4000, 8000)) if not parts else random.choice((250, 500, 1000, 3000))
        made.append(
            Job(
                f"j{number}",
                float(at),
                {CPU: random.choice((1000, 4000)), GPU: milli},
                float(random.randrange(1, 300)),
                pods,
                gang=pods > 1 and random.random() < 0.7 and gangs,
                priority=random.choice((0, 0, 10)) if urgent else 0,
                tenant=random.choice("ab"),
            )
        )
    return Workload(f"random {seed}", tuple(made), nodes(machines), _failures(random, machines, failures, at))


def _failures(random: Random, machines: int, number: int, until: int) -> tuple[NodeFailure, ...]:
    found, free = [], dict.fromkeys(range(machines), 0)
    for _ in range(number):
        machine = random.randrange(machines)
        at = free[machine] + random.randrange(1, max(2, until))
        free[machine] = at + random.randrange(1, 100)
        found.append(NodeFailure(f"n{machine}", float(at), float(free[machine])))
    return tuple(sorted(found, key=lambda failure: failure.at))


def naive_starts(workload: Workload) -> dict[str, float]:
    """When each job of a workload on *one* node starts: time goes from second to second, and at each the jobs are
    looked at in the order of arrival. A job that does not fit is passed over. Pods that are no gang count one by one.
    """
    free = workload.nodes[0].capacity[GPU]
    waiting: list[tuple[Job, int]] = []
    ends: list[tuple[float, int]] = []
    starts: dict[str, float] = {}
    left = list(workload.jobs)
    now = 0.0
    while left or waiting or ends:
        free += sum(milli for at, milli in ends if at == now)
        ends = [end for end in ends if end[0] > now]
        while left and left[0].arrival <= now:
            job = left.pop(0)
            parts = 1 if job.gang else job.pods
            waiting += [(job, job.gpu_milli // parts)] * parts
        still = []
        for job, milli in waiting:
            if milli <= free:
                free -= milli
                starts[job.name] = now
                ends.append((now + (job.seconds or 0.0), milli))
            else:
                still.append((job, milli))
        waiting = still
        if not left and not ends:
            break
        now += 1.0
    return starts
