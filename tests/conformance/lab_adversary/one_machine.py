"""What a simulation of one machine must give, from docs/simulate.md alone: no code of ours is used.

All pods have one priority and are no gangs, so nobody is preempted, and each moment is a walk through those that wait,
in the order in which they were created: who fits, runs.
"""

from __future__ import annotations

import heapq
from random import Random
from typing import Any

Job = dict[str, Any]


def drawn(random: Random) -> dict[str, Any]:
    """Return a workload in our own format: up to 25 jobs for one machine, each pod of which fits there alone."""
    capacity = {"cpu": 16000, "memory": 64 << 30, "gpu": random.choice([2000, 4000, 8000])}
    jobs: list[Job] = []
    arrival = 0.0
    for number in range(random.randint(1, 25)):
        arrival = round(arrival + random.choice([0.0, 1.0, 30.0, random.expovariate(1 / 100)]), 3)
        requests = {"cpu": random.choice([500, 1000, 4000]), "gpu": random.choice([1000, 2000, capacity["gpu"]])}
        seconds = round(random.choice([0.5, 60.0, random.expovariate(1 / 300) + 0.001]), 3)
        job = {"name": f"job-{number:02}", "arrival": arrival, "seconds": seconds, "requests": requests}
        jobs.append(job | {"pods": random.choice([1, 1, 2, 3, 5]), "tenant": random.choice("abc")})
    node = {"name": "node", "capacity": capacity}
    return {"format": "waggle-workload", "version": 1, "name": "one machine", "nodes": [node], "jobs": jobs}


def expected(workload: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return when the last pod of each job has a place, and when the job ends, by the job's name."""
    free = dict(workload["nodes"][0]["capacity"])
    moments = [(job["arrival"], 1, number, job) for number, job in enumerate(workload["jobs"])]
    number = len(moments)
    waiting: list[Job] = []
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    while moments:
        now = moments[0][0]
        while moments and moments[0][0] == now:
            _, arrives, _, job = heapq.heappop(moments)
            if arrives:
                waiting += [job] * job["pods"]
                continue
            ends[job["name"]] = now
            for name, amount in job["requests"].items():
                free[name] += amount
        refused: list[Job] = []
        for job in waiting:
            if any(free[name] < amount for name, amount in job["requests"].items()):
                refused.append(job)
                continue
            for name, amount in job["requests"].items():
                free[name] -= amount
            starts[job["name"]] = now
            number += 1
            heapq.heappush(moments, (now + job["seconds"], 0, number, job))
        waiting = refused
    return {name: (start, ends[name]) for name, start in starts.items()}
