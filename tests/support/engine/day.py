"""The recording of docs/replay.md: a simulated day of eight machines with eight GPUs, under HiveD, with three tenants.

python -m tests.support.engine.day day.log
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from msgspec.structs import replace

from extender.lab.generator import Options, generate
from extender.lab.run.simulation import RunOptions
from extender.lab.workload import CPU, GPU, Job, NodeFailure, Workload
from tests.support.engine.simulated_log import simulated_log

#: The tenants, and how many machines each is promised.
TENANTS = {"vision": 4, "speech": 2, "search": 2}
SECONDS = 86_400.0


def settings() -> str:
    """The configuration of Waggle."""
    cells = {
        "half": {"childCellType": "gpu", "childCellNumber": 4},
        "machine": {"childCellType": "half", "childCellNumber": 2, "isNodeLevel": True},
        "rack": {"childCellType": "machine", "childCellNumber": 4},
    }
    names = [f"node-{number}" for number in range(8)]
    racks = [
        {"cellType": "rack", "cellChildren": [{"cellAddress": name} for name in names[first : first + 4]]}
        for first in (0, 4)
    ]
    promised = {
        name: {"virtualCells": [{"cellType": "rack.machine", "cellNumber": number}]} for name, number in TENANTS.items()
    }
    own = {"physicalCluster": {"cellTypes": cells, "physicalCells": racks}, "virtualClusters": promised}
    return yaml.safe_dump({"algorithm": {"name": "hived", "settings": own}}, sort_keys=False)


def workload() -> Workload:
    """Jobs as on Microsoft's clusters of 2017, and a gang of two whole machines every other hour. A machine fails."""
    made = generate("philly", Options(nodes=8, days=1.0, load=1.5, tenants=3, seed=4, spot=0.4))
    names = dict(zip((f"tenant-{number}" for number in (1, 2, 3)), TENANTS, strict=True))
    jobs = [
        replace(job, name=f"{job.name.partition('-')[0]}-{number}", tenant=names[job.tenant])
        for number, job in enumerate(made.jobs)
        if job.requests.get(GPU, 0) >= 1000
    ]
    for number in range(12):
        tenant = list(TENANTS)[number % 3]
        arrival = 7200.0 * number + 600
        jobs.append(Job(f"train-{number}", arrival, {CPU: 8000, GPU: 8000}, 5400.0, 2, True, 1, tenant))
    jobs.sort(key=lambda job: job.arrival)
    return replace(made, jobs=tuple(jobs), failures=(NodeFailure("node-5", 50_000.0, 53_600.0),))


def write_day(path: Path) -> None:
    simulated_log(path, workload(), RunOptions(algorithm="hived", settings=settings(), horizon=SECONDS))


if __name__ == "__main__":
    write_day(Path(sys.argv[1]))
