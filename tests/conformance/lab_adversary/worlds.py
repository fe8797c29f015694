"""Random workloads of every kind that docs/simulate.md allows, the odd ones in particular. No code of ours is used."""

from __future__ import annotations

from random import Random
from typing import Any

MODELS = ("", "A100", "T4")


def _failures(random: Random, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    everywhere = random.random() < 0.3
    for node in nodes:
        at = random.choice([0.0, 0.0, 1.0, round(random.uniform(0, 400), 2)])
        for _ in range(random.randint(1, 3) if everywhere or random.random() < 0.4 else 0):
            until = round(at + random.choice([0.25, 1.0, 30.0, 200.0]), 3)
            failure: dict[str, Any] = {"node": node["name"], "at": at}
            for_ever = random.random() < 0.1
            found.append(failure if for_ever else failure | {"until": until})
            if for_ever:
                break
            at = round(until + random.choice([0.5, 1.0, 60.0]), 3)
    return sorted(found, key=lambda failure: failure["at"])


def _job(random: Random, number: int, arrival: float, *, gangs: bool, priorities: tuple[int, ...]) -> dict[str, Any]:
    gpu = random.choice([0, 1, 250, 500, 999, 1000, 1000, 1000, 2000, 4000, 8000, 16000])
    job: dict[str, Any] = {
        "name": f"job-{number:03}",
        "arrival": arrival,
        "requests": {"cpu": random.choice([0, 100, 1000, 8000]), "gpu": gpu},
        "pods": random.choice([1, 1, 1, 2, 3, 5]),
        "priority": random.choice(priorities),
        "tenant": random.choice(["", "a", "b", "c c"]),
        "gpu_models": random.choice([[], [], [], ["A100"], ["T4", "A100"], ["none"]]),
    }
    if random.random() < 0.9:
        job["seconds"] = random.choice([0.0, 0.001, 1.0, 60.0, round(random.expovariate(1 / 120), 3)])
    if gangs and random.random() < 0.4:
        job["gang"] = True
    if random.random() < 0.1:
        job["patience"] = random.choice([0.0, 10.0, 100.0])
    if random.random() < 0.1:
        job["again"] = False
    if random.random() < 0.1:
        job["excluded"] = ["node-00"]
    return job


def drawn(random: Random, *, gangs: bool = True, failures: bool = True) -> dict[str, Any]:
    """Return a workload of up to 40 jobs on up to 6 nodes."""
    nodes = [
        {
            "name": f"node-{number:02}",
            "capacity": {
                "cpu": random.choice([8000, 32000]),
                "memory": 64 << 30,
                "gpu": random.choice([0, 1000, 2000, 8000]),
            },
            "gpu_model": random.choice(MODELS),
        }
        for number in range(random.randint(1, 6))
    ]
    priorities = random.choice([(0,), (0, 1), (-1, 0, 100, 2147483647, -2147483648)])
    jobs = []
    arrival = 0.0
    for number in range(random.randint(1, 40)):
        arrival = round(arrival + random.choice([0.0, 0.0, 1.0, random.expovariate(1 / 20)]), 3)
        jobs.append(_job(random, number, arrival, gangs=gangs, priorities=priorities))
    return {
        "format": "waggle-workload",
        "version": 1,
        "name": "odd",
        "nodes": nodes,
        "jobs": jobs,
        "failures": _failures(random, nodes) if failures and random.random() < 0.6 else [],
    }
