"""What the random runs of HiveD draw from: configurations, switches, sizes of pods; and how they read the outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from algorithm.hived.state import lazy_preemption as lazily
from algorithm.hived.state.cluster import HivedCluster
from algorithm.model import Pod
from tests.conformance.hived_recordings import document

CONFIGS = sorted(document()["configs"])
#: What a run may switch on, beyond what the original has.
SWITCHES: dict[str, Any] = {
    "keepHealthyCellsWhole": True,
    "obeyGangRelease": True,
    "groupNamesPer": ["virtualCluster"],
    "badDevices": {},
    "combineCells": True,
    "promoteLazilyPreempted": True,
    "opportunisticLimits": {"cluster": "50%", "virtualClusters": {"*": "30%"}},
}


def _hosts(number: int, types: str, **promises: str) -> str:
    cells = [f"  - {{cellType: host, cellAddress: m{index}}}" for index in range(number)]
    tenants = [f"  {name}: {{virtualCells: [{promise}]}}" for name, promise in promises.items()]
    return "\n".join(
        ["physicalCluster:", f"  cellTypes: {types}", "  physicalCells:", *cells, "virtualClusters:", *tenants, ""]
    )


_FLAT = "{host: {childCellType: gpu, childCellNumber: 4, isNodeLevel: true}}"
_SOCKETS = (
    "{host: {childCellType: socket, childCellNumber: 2, isNodeLevel: true}, "
    "socket: {childCellType: gpu, childCellNumber: 2}}"
)
_HOST, _SOCKET = "{cellType: host, cellNumber: %d}", "{cellType: host.socket, cellNumber: %d}"
#: A few machines: what one group has, another one lacks.
SMALL = {
    "one promise": _hosts(2, _FLAT, a=_HOST % 1),
    "parts of machines": _hosts(2, _SOCKETS, a=_SOCKET % 1, b=_HOST % 1),
    "two of three": _hosts(3, _SOCKETS, a=_HOST % 1, b=_HOST % 1),
    "mixed": _hosts(3, _SOCKETS, a=f"{_HOST % 1}, {_SOCKET % 1}", b=_SOCKET % 2),
}
#: Promises of three levels, and a row to spare: a gang may need cells of two levels, and larger cells split for both.
LEVELS = """
physicalCluster:
  cellTypes:
    host: {childCellType: gpu, childCellNumber: 1, isNodeLevel: true}
    rack: {childCellType: host, childCellNumber: 2}
    row: {childCellType: rack, childCellNumber: 2}
  physicalCells:
  - {cellType: row, cellChildren: [{cellChildren: [{cellAddress: a1}, {cellAddress: a2}]},
                                   {cellChildren: [{cellAddress: a3}, {cellAddress: a4}]}]}
  - {cellType: row, cellChildren: [{cellChildren: [{cellAddress: b1}, {cellAddress: b2}]},
                                   {cellChildren: [{cellAddress: b3}, {cellAddress: b4}]}]}
  - {cellType: row, cellChildren: [{cellChildren: [{cellAddress: c1}, {cellAddress: c2}]},
                                   {cellChildren: [{cellAddress: c3}, {cellAddress: c4}]}]}
virtualClusters:
  small: {virtualCells: [{cellType: row.rack.host, cellNumber: 2}, {cellType: row.rack, cellNumber: 1}]}
  medium: {virtualCells: [{cellType: row.rack, cellNumber: 1}]}
  large: {virtualCells: [{cellType: row, cellNumber: 1}]}
"""
#: Those of the recordings, and our own.
OWN = {**SMALL, "levels": LEVELS}


def yaml_of(config: str) -> str:
    return OWN.get(config) or document()["configs"][config]["yaml"]


def without_quota(each: Pod) -> Iterator[str]:
    """UIDs of pods that had lost their quota when this one was bound."""
    return (uid for lost in lazily.read(each.annotation(lazily.LAZILY_PREEMPTED)) if lost.by for uid in lost.pods)


def pod_sizes(hive: HivedCluster) -> list[int]:
    """Devices that a pod may want: those of any cell up to a machine, and one less than a machine has."""
    chains = hive.layout.chains.values()
    sizes = {chain.levels[level].leafs for chain in chains for level in range(1, chain.machine_level + 1)}
    return sorted(sizes | {max(1, max(sizes) - 1)})


def devices_of_groups(hive: HivedCluster) -> dict[str, set[tuple[str, str]]]:
    return {
        name: {(device.chain, device.address) for device, _ in group.leafs()} for name, group in hive.groups.items()
    }


def group_name(each: Pod) -> str:
    return each.name.rpartition("-")[0]


def group_of(each: Pod, among: dict[str, Pod]) -> list[Pod]:
    return [other for other in among.values() if group_name(other) == group_name(each)]


def changed(config: dict[str, Any], change: int, pick: int) -> dict[str, Any]:
    """More or less quota, a tenant or a top cell less, nothing pinned, a switch turned; not every one is possible."""
    other = yaml.safe_load(yaml.safe_dump(config))
    tenants, cells = other["virtualClusters"], other["physicalCluster"]["physicalCells"]
    tenant = tenants[sorted(tenants)[pick % len(tenants)]]
    quotas = tenant.get("virtualCells") or []
    match change % 6:
        case 0 | 1 if quotas:
            quota = quotas[pick // 7 % len(quotas)]
            quota["cellNumber"] = max(0, quota["cellNumber"] + (1 if change % 6 else -1))
        case 2 if len(tenants) > 1:
            del tenants[sorted(tenants)[pick % len(tenants)]]
        case 3:
            del cells[pick % len(cells)]
        case 4:
            tenant.pop("pinnedCells", None)
        case 5:
            switches = sorted(SWITCHES)
            switch = switches[pick % len(switches)]
            if other.pop(switch, None) is None:
                other[switch] = SWITCHES[switch]
    return other
