"""The exact workload on which the original's speed was recorded: cluster, promises, jobs that fill it, jobs timed.

A chain of racks with 20 machines of 8 devices each; four tenants that are promised a fifth of the machines each. They
are filled to about 70 % by `plan.json`: for each number of machines a list of [tenant, pods, devices per pod], drawn
once with a seed and shuffled. The job at position i has priority i mod 3.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

TENANTS = 4
RACK = 20
DEVICES = 8
PREFIX = "hivedscheduler.microsoft.com/"
SPEC = PREFIX + "pod-scheduling-spec"
DOES_NOT_FIT = "does not fit"

_CELL_TYPES = {
    3: "    host: {childCellType: gpu, childCellNumber: 8, isNodeLevel: true}\n",
    4: (
        "    socket: {childCellType: gpu, childCellNumber: 4}\n"
        "    host: {childCellType: socket, childCellNumber: 2, isNodeLevel: true}\n"
    ),
    5: (
        "    pair: {childCellType: gpu, childCellNumber: 2}\n"
        "    socket: {childCellType: pair, childCellNumber: 2}\n"
        "    host: {childCellType: socket, childCellNumber: 2, isNodeLevel: true}\n"
    ),
}
LEVELS = tuple(_CELL_TYPES)


class Job(NamedTuple):
    """A gang of `pods` with `devices` each; priority -1 is opportunistic."""

    tenant: int
    priority: int
    pods: int
    devices: int

    def annotation(self, group: str) -> str:
        """The original's pod-scheduling-spec, the same for all pods of the gang."""
        return (
            f"virtualCluster: vc{self.tenant}\npriority: {self.priority}\nleafCellType: gpu\n"
            f"leafCellNumber: {self.devices}\naffinityGroup:\n  name: {group}\n  members:\n"
            f"  - podNumber: {self.pods}\n    leafCellNumber: {self.devices}\n"
        )


#: What is timed: priority, pods, devices per pod.
KINDS = {
    "1x1": (1, 1, 1),
    "1x8": (1, 1, 8),
    "8x8": (1, 8, 8),
    "1x1 opportunistic": (-1, 1, 1),
    "8x8 opportunistic": (-1, 8, 8),
}
#: A tenant of the smallest cluster has only six machines left.
_SMALLEST, _SMALLEST_GANG = 100, 4


def node_name(number: int) -> str:
    return f"node-{number:04d}"


def config(machines: int, levels: int) -> str:
    """The original's configuration file, as far as it says what there is and to whom it is promised."""
    text = f"physicalCluster:\n  cellTypes:\n{_CELL_TYPES[levels]}"
    text += f"    rack: {{childCellType: host, childCellNumber: {RACK}}}\n  physicalCells:\n"
    for first in range(0, machines, RACK):
        hosts = (f"    - {{cellAddress: {node_name(number)}}}\n" for number in range(first, first + RACK))
        text += "  - cellType: rack\n    cellChildren:\n" + "".join(hosts)
    share = machines // (TENANTS + 1)
    for tenant in range(TENANTS):
        text += "virtualClusters:\n" if tenant == 0 else ""
        text += f"  vc{tenant}:\n    virtualCells:\n    - {{cellType: rack.host, cellNumber: {share}}}\n"
    return text


@cache
def _plans() -> dict[int, list[list[int]]]:
    plans = json.loads(Path(__file__).with_name("plan.json").read_bytes())
    return {int(machines): plan for machines, plan in plans.items()}


def sizes() -> list[int]:
    """Numbers of machines for which there is a plan."""
    return sorted(_plans())


def fill(machines: int) -> list[Job]:
    """The jobs that run meanwhile."""
    return [Job(tenant, number % 3, pods, devices) for number, (tenant, pods, devices) in enumerate(_plans()[machines])]


def timed_job(kind: str, turn: int, machines: int) -> Job:
    """Tenants take turns."""
    if kind == DOES_NOT_FIT:
        return Job(turn % TENANTS, 1, machines, DEVICES)
    priority, pods, devices = KINDS[kind]
    if machines == _SMALLEST and kind == "8x8":
        pods = _SMALLEST_GANG
    return Job(turn % TENANTS, priority, pods, devices)
