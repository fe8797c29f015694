"""Pages about the hive: the original's, and a summary that stays small for any size of the cluster."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any, cast

import msgspec

from algorithm.gauges import Gauge, Sample
from algorithm.hived.cells.cells import Cell, CellState, PhysicalCell, VirtualCell
from algorithm.hived.cells.chains import preassigned
from algorithm.hived.formats.podspec import OPPORTUNISTIC
from algorithm.hived.formats.timestamps import rfc3339
from algorithm.hived.insight.parts import Part, slices
from algorithm.hived.insight.ui_snapshot import UiSnapshot
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group
from algorithm.hived.state.usage import Where, bad
from algorithm.hived.state.waiting import Waiting
from algorithm.interface import InvalidArgument, PageNotFound

#: So many unrecoverable pods are shown at most.
SHOWN = 50
#: Devices of a part of a page: it is written while nothing can be decided, and takes a millisecond.
_PART = 128
_ALL = "HiveD has affinitygroups and clusterstatus, and cells for the web page"


# -- the original's pages ---------------------------------------------------------------------------------------------


class Pages:
    """The original's inspect API below `/v1/inspect/`. What has not changed is not written again."""

    def __init__(self, hive: HivedCluster) -> None:
        self._hive = hive
        #: The hardware, and by tenant its promises; made when they are asked for.
        self._hardware: list[Part] = []
        self._promises: dict[str, list[Part]] = {}
        #: By root of hardware: the version, and the cells that are made up for its borrowed devices, by tenant.
        self._borrowed: dict[Cell, tuple[int, dict[str, bytes]]] = {}
        self._ui_snapshot = UiSnapshot(hive)

    def page(self, path: str) -> Any:
        """JSON-ready data, or pieces of JSON. Raises PageNotFound; InvalidArgument where the original answers 400."""
        parts = path.strip("/").split("/", 2)
        match parts:
            case ["cells"]:
                return self._ui_snapshot.pieces()
            case ["affinitygroups"]:
                return self._groups()
            case ["affinitygroups", *rest]:
                return self._group("/".join(rest))
            case ["clusterstatus"]:
                return self._cluster()
            case ["clusterstatus", "physicalcluster"]:
                return self._physical()
            case ["clusterstatus", "virtualclusters"]:
                return self._virtual()
            case ["clusterstatus", inner] if inner.startswith("virtualclusters/"):
                return self._tenant(inner.removeprefix("virtualclusters/"))
            case ["clusterstatus", "virtualclusters", tenant]:
                return self._tenant(tenant)
        raise PageNotFound(path, f"there is no page /v1/inspect/{path}; {_ALL}")

    def _groups(self) -> Iterator[bytes]:
        """A gang may have ended between two pieces: it is shown as it was last."""
        yield b'{"items":['
        for number, (_, group) in enumerate(sorted(self._hive.groups.items())):
            yield (b"," if number else b"") + msgspec.json.encode(affinity_group(group))
        yield b"]}"

    def _group(self, name: str) -> dict[str, Any]:
        groups = self._hive.groups
        found = [groups[name]] if name in groups else [group for group in groups.values() if group.shown == name]
        if len(found) > 1:
            paths = ", ".join(sorted(group.name for group in found))
            raise InvalidArgument(f"several affinity groups have that name: {paths}")
        if not found:
            raise InvalidArgument(f"affinity group {name} does not exist since it is not allocated or preempting")
        return affinity_group(found[0])

    def _cluster(self) -> Iterator[bytes]:
        yield b'{"physicalCluster":'
        yield from self._physical()
        yield b',"virtualClusters":'
        yield from self._virtual()
        yield b"}"

    def _physical(self) -> Iterator[bytes]:
        self._hardware = self._hardware or [self._part([top]) for top in self._tops()]
        return _list(part.text() for part in self._hardware)

    def _tops(self) -> Iterator[PhysicalCell]:
        return (top for chain in self._hive.layout.chains.values() for top in chain.full[chain.top])

    def _virtual(self) -> Iterator[bytes]:
        for number, name in enumerate(self._hive.layout.tenants):
            yield (b"," if number else b"{") + msgspec.json.encode(name) + b":"
            yield from self._tenant(name)
        yield b"}" if self._hive.layout.tenants else b"{}"

    def _tenant(self, name: str) -> Iterator[bytes]:
        """The preassigned cells, and a made-up one for each device that the tenant uses opportunistically."""
        tenant = self._hive.layout.tenants.get(name)
        if tenant is None:
            raise InvalidArgument(f"VC {name} not found")
        if name not in self._promises:
            self._promises[name] = [self._part(some) for some in slices(preassigned(tenant), _PART)]
        borrowed = (self._borrowed_in(top).get(name, b"") for top in self._tops())
        return _list(itertools.chain((part.text() for part in self._promises[name]), borrowed))

    def _borrowed_in(self, top: PhysicalCell) -> dict[str, bytes]:
        """By tenant: what is shown for the devices of this tree that it borrows, with commas in between."""
        known = self._borrowed.get(top)
        if known is None or known[0] != top.version:
            found: dict[str, list[bytes]] = {}
            for device in _devices(top):
                if device.tenant:
                    found.setdefault(device.tenant, []).append(msgspec.json.encode(_borrowed(device)))
            texts = {tenant: b",".join(each) for tenant, each in found.items()}
            known = self._borrowed[top] = (top.version, texts)
        return known[1]

    def _part(self, cells: Sequence[Cell]) -> Part:
        """The trees of these cells, with commas in between."""
        return Part(lambda: b",".join(msgspec.json.encode(self._tree(cell)) for cell in cells), cells)

    def _tree(self, cell: Cell) -> dict[str, Any]:
        leaf_type = self._hive.layout.chains[cell.chain].leaf_type
        if isinstance(cell, PhysicalCell):
            shown = _physical(cell, deep=True, leaf_type=leaf_type)
        else:
            shown = _virtual(cast(VirtualCell, cell), deep=True, leaf_type=leaf_type)
        return {"leafCellType": leaf_type, **shown}


def _list(texts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a JSON array of these elements. An empty text is none."""
    before = b"["
    for text in texts:
        if text:
            yield before
            before = b","
        yield text
    yield b"[]" if before == b"[" else b"]"


def affinity_group(group: Group) -> dict[str, Any]:
    """One group, as the original shows it. Devices that it does not have (any more) are left out.

    If names are scoped, its `path` says which one of that name it is.
    """
    status: dict[str, Any] = {"vc": group.tenant, "priority": group.priority, "state": group.state.value}
    status |= _placements(group)
    uids = [member.uid for member in group.members()]
    if uids:
        status["allocatedPods"] = uids
    if group.preempting:
        status["preemptingPods"] = list(group.preempting)
    if group.lazily_preempted_by:
        status["lazyPreemptionStatus"] = {"preemptor": group.lazily_preempted_by}
        if group.lazily_preempted_at:
            status["lazyPreemptionStatus"]["preemptionTime"] = rfc3339(group.lazily_preempted_at)
    metadata = {"name": group.shown}
    if group.scope:
        metadata["path"] = f"/v1/inspect/affinitygroups/{group.name}"
    return {"metadata": metadata, "status": status}


def _placements(group: Group) -> dict[str, Any]:
    physical: dict[str, list[int]] = {}
    virtual: dict[str, list[str]] = {}
    for device, cell in group.leafs():
        physical.setdefault(device.nodes[0], []).append(device.indices[0])
        if cell is not None:
            virtual.setdefault(cell.root.address, []).append(cell.address)
    found: dict[str, Any] = {}
    if physical:
        found["physicalPlacement"] = physical
    if virtual:
        found["virtualPlacement"] = virtual
    return found


def _cell(cell: PhysicalCell | VirtualCell, is_machine: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"cellType": cell.type}
    if is_machine:
        shown["isNodeLevel"] = True
    shown |= {
        "cellAddress": cell.address,
        "cellState": cell.state.value,
        "cellHealthiness": "Healthy" if cell.healthy else "Bad",
        "cellPriority": cell.priority,
    }
    return shown


def _is_machine(cell: Cell) -> bool:
    return cell.machine_or_above and not (cell.children and cell.children[0].machine_or_above)


def _physical(cell: PhysicalCell, *, deep: bool, leaf_type: str = "") -> dict[str, Any]:
    shown = _cell(cell, _is_machine(cell))
    if deep and cell.children:
        shown["cellChildren"] = [_physical(child, deep=True, leaf_type=leaf_type) for child in cell.children]
    tenant = cell.tenant or (cell.virtual.tenant if cell.virtual is not None else "")
    if tenant:
        shown["vc"] = tenant
    if deep and cell.virtual is not None:
        shown["virtualCell"] = _of_root(cell.virtual, leaf_type) | _virtual(cell.virtual, deep=False)
    return shown


def _of_root(cell: Cell, leaf_type: str) -> dict[str, str]:
    """As the original has it, the root of a tree has the type of its devices, also where it is shown beside another."""
    return {"leafCellType": leaf_type} if cell.parent is None else {}


def _virtual(cell: VirtualCell, *, deep: bool, leaf_type: str = "") -> dict[str, Any]:
    shown = _cell(cell, _is_machine(cell))
    if deep and cell.children:
        shown["cellChildren"] = [_virtual(child, deep=True, leaf_type=leaf_type) for child in cell.children]
    if deep and cell.physical is not None:
        shown["physicalCell"] = _of_root(cell.physical, leaf_type) | _physical(cell.physical, deep=False)
    return shown


def _borrowed(device: PhysicalCell) -> dict[str, Any]:
    return {
        "cellType": device.type,
        "cellAddress": f"{device.address}-opp",
        "cellState": CellState.USED.value,
        "cellHealthiness": "Healthy" if device.healthy else "Bad",
        "cellPriority": OPPORTUNISTIC,
        "physicalCell": _physical(device, deep=False),
    }


def _devices(top: PhysicalCell) -> list[PhysicalCell]:
    cells = [top]
    while cells[0].level > 1:
        cells = [child for cell in cells for child in cell.children]
    return cells


# -- the summary ------------------------------------------------------------------------------------------------------


def summary(
    hive: HivedCluster,
    unrecoverable_pods: Mapping[str, tuple[str, str]],
    waiting: Waiting,
    warnings: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """By virtual cluster: devices guaranteed, used within that, borrowed from others, bad, and waited for.

    `warnings` are about what is written on nodes and cannot be read, by node.
    """
    groups = hive.groups.values()
    usage = hive.usage
    counts = {
        "guaranteed": _by_tenant(hive.guaranteed),
        "used": _by_tenant(usage.used),
        "borrowed": _by_tenant(usage.borrowed),
        "waiting": waiting.devices,
        "bad": _by_tenant(bad(hive.layout)),
    }
    return {
        "virtualClusters": {
            name: {kind: counted[name] for kind, counted in counts.items()} for name in hive.layout.tenants
        },
        "affinityGroups": {
            "known": len(groups),
            "preempting": sum(bool(group.preempting) for group in groups),
            "lazilyPreempted": sum(bool(group.lazily_preempted_by) for group in groups),
        },
        "strangers": dict(nsmallest(SHOWN, unrecoverable_pods.values())),
        "nodeWarnings": dict(nsmallest(SHOWN, (warnings or {}).items())),
    }


def _by_tenant(counted: Counter[Where]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (tenant, _), number in counted.items():
        found[tenant] += number
    return found


# -- for Prometheus ---------------------------------------------------------------------------------------------------


def gauges(hive: HivedCluster, waiting: Waiting) -> tuple[Gauge, ...]:
    """By virtual cluster (and chain): the same numbers."""
    promised, tenants = hive.guaranteed, hive.layout.tenants
    return (
        _by_chain("guaranteed_devices", "Devices that the virtual cluster is promised.", promised, promised),
        _by_chain("used_devices", "Devices in use, or reserved, within the promise.", hive.usage.used, promised),
        _by_chain("borrowed_devices", "Devices in use without a promise.", hive.usage.borrowed, promised),
        _by_chain("bad_devices", "Promised devices that are bad hardware now.", bad(hive.layout), promised),
        _by_cluster("waiting_devices", "Devices that waiting pods ask for.", waiting.devices, tenants),
        _by_cluster("waiting_pods", "Pods that wait for a place.", waiting.pods, tenants),
    )


def _by_chain(name: str, text: str, counted: Counter[Where], promised: Iterable[Where]) -> Gauge:
    """Also zeros, wherever something is promised."""
    places = sorted({*promised, *counted})
    samples = (Sample(counted[at], (("virtual_cluster", at[0]), ("chain", at[1]))) for at in places)
    return Gauge(name, text, tuple(samples))


def _by_cluster(name: str, text: str, counted: Counter[str], tenants: Iterable[str]) -> Gauge:
    return Gauge(name, text, tuple(Sample(counted[tenant], (("virtual_cluster", tenant),)) for tenant in tenants))
