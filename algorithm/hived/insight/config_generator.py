"""A first configuration, written from the nodes of a cluster: cells from labels and devices, promises in equal shares.

Machines with the same number of the same devices are cells of one type. Each label of `Wishes.levels` is a level above
them: machines with the same value and the same devices are one cell. So different cells are never in one chain: a rack
with four machines and one with three are cells of two types.

People read and edit the text: it names its sources, the nodes that were left out, and the decisions to make now. The
same nodes give the same text in any order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from algorithm.model import Node, lookup
from algorithm.suggest import near

_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*", re.ASCII)
_NOT_TEXT = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE | re.ASCII)
_DIGITS = re.compile(r"(\d+)")
_NAMED = 20


class DraftError(ValueError):
    """No configuration can be made of these nodes; the message says which resources and labels were searched for."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """`levels` are labels from the outermost on; `type_labels` name the kind of device, the first that a node has."""

    levels: tuple[str, ...] = ()
    resources: tuple[str, ...] = ("nvidia.com/gpu",)
    type_labels: tuple[str, ...] = ("nvidia.com/gpu.product", "node.kubernetes.io/instance-type")
    tenants: tuple[str, ...] = ("default",)


@dataclass(frozen=True)
class Draft:
    """`text` is YAML. `remarks` are sentences for its author; the text contains them as comments."""

    text: str
    remarks: list[str]


def draft(nodes: Iterable[Node], wishes: Wishes, *, whole: bool = True) -> Draft:
    """`whole`: Waggle's configuration, and not only the algorithm's settings. Raises DraftError."""
    if not all(wishes.tenants) or len(set(wishes.tenants)) < len(wishes.tenants):
        raise DraftError(f"the names of tenants must differ, and not be empty: {', '.join(map(repr, wishes.tenants))}")
    known = sorted(nodes, key=lambda node: _natural(node.name))
    machines = [machine for node in known if (machine := _machine(node, wishes)) is not None]
    if not machines:
        raise DraftError(_nothing_found(known, wishes))
    _check_levels(known, {machine.address for machine in machines}, wishes)
    tops = _tops(machines, len(wishes.levels))
    names = _Names(wishes.levels)
    for top in tops:
        names.add(top)
    remarks = list(_remarks(known, machines, wishes))
    settings = list(_settings(tops, names, wishes.tenants))
    # A line break in a name would end the comment, and the rest of the name would be configuration.
    lines = [f"# {' '.join(line.split())}" for line in _opening(len(machines), wishes, remarks)]
    lines += _wrapped(settings) if whole else settings
    return Draft("\n".join(lines) + "\n", remarks)


# -- from nodes to cells ----------------------------------------------------------------------------------------------

#: The number of children on each level of a cell, down to the devices.
_Sizes = tuple[int, ...]


@dataclass(frozen=True)
class _Cell:
    """`level` is 0 for a machine and counts the labels from the innermost on; `groups` are the values of its labels."""

    device: str
    sizes: _Sizes
    level: int
    address: str
    groups: tuple[str, ...]
    children: tuple[_Cell, ...] = field(default=(), repr=False)


def _machine(node: Node, wishes: Wishes) -> _Cell | None:
    amounts = dict(node.allocatable)
    resource = next((name for name in wishes.resources if amounts.get(name, 0) > 0), None)
    if resource is None:
        return None
    labels = (lookup(node.labels, label) for label in wishes.type_labels)
    kind = next((value for value in labels if value), resource.rpartition("/")[2])
    groups = tuple(lookup(node.labels, label) or "" for label in wishes.levels)
    return _Cell(_slug(kind), (amounts[resource],), 0, node.name, groups if all(groups) else ())


def _tops(machines: Sequence[_Cell], levels: int) -> list[_Cell]:
    """Machines that lack one of the labels are top cells themselves."""
    tops = [machine for machine in machines if levels and not machine.groups]
    cells = [machine for machine in machines if not levels or machine.groups]
    for level in range(1, levels + 1):
        cells = _grouped(cells, level, levels - level + 1)
    return sorted([*cells, *tops], key=lambda top: (top.device, -top.level, top.sizes, _natural(top.address)))


def _grouped(cells: Sequence[_Cell], level: int, depth: int) -> list[_Cell]:
    """The cells one level up: cells of one type with the same labels down to this depth form one."""
    found: dict[tuple[object, ...], list[_Cell]] = {}
    for cell in cells:
        found.setdefault((cell.groups[:depth], cell.device, cell.sizes), []).append(cell)
    return [
        _Cell(
            first.device, (len(children), *first.sizes), level, first.groups[depth - 1], first.groups, tuple(children)
        )
        for children in found.values()
        for first in children[:1]
    ]


def _natural(name: str) -> list[tuple[int, int, str]]:
    """gpu-9 before gpu-10."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(name) if part]


def _slug(text: str) -> str:
    """A name that may stand in a path of types, which are separated by dots."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-") or "device"


# -- names of types ---------------------------------------------------------------------------------------------------

_Key = tuple[str, int, _Sizes]


class _Names:
    """Short where that is enough: A100-rack, or where there are several kinds A100-rack-4x8 (machines x devices)."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._bases = ["host", *(_slug(label.rpartition("/")[2]) for label in reversed(labels))]
        if len(set(self._bases)) < len(self._bases):
            self._bases = ["host", *(_slug(label) for label in reversed(labels))]
        #: An example of each type, from the devices up.
        self.types: dict[_Key, _Cell] = {}

    def add(self, cell: _Cell) -> None:
        for child in cell.children[:1]:
            self.add(child)
        self.types.setdefault((cell.device, cell.level, cell.sizes), cell)

    def of(self, cell: _Cell) -> str:
        short = f"{cell.device}-{self._bases[cell.level]}"
        rivals = [key for key in self.types if key[:2] == (cell.device, cell.level)]
        is_device = any(key[0] == short for key in self.types)
        return f"{short}-{'x'.join(map(str, cell.sizes))}" if len(rivals) > 1 or is_device else short


# -- text -------------------------------------------------------------------------------------------------------------


def _settings(tops: Sequence[_Cell], names: _Names, tenants: Sequence[str]) -> Iterator[str]:
    yield "physicalCluster:"
    yield "  cellTypes: # from the devices up"
    for cell in names.types.values():
        inner = names.of(cell.children[0]) if cell.children else cell.device
        machine = "" if cell.children else ", isNodeLevel: true"
        yield f"    {names.of(cell)}: {{childCellType: {inner}, childCellNumber: {cell.sizes[0]}{machine}}}"
    yield "  physicalCells:"
    for top in tops:
        yield f"  - cellType: {names.of(top)}"
        yield from (f"    {line}" for line in _below(top))
    yield "virtualClusters: # who is promised what; what is left over is for opportunistic pods"
    for tenant in tenants:
        yield f"  {_scalar(tenant)}:"
        yield from _promises(tops, names, len(tenants))


def _below(cell: _Cell) -> Iterator[str]:
    yield f"cellAddress: {_scalar(cell.address)}"
    if cell.children:
        yield "cellChildren:"
        for child in cell.children:
            first, *rest = _below(child)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _promises(tops: Sequence[_Cell], names: _Names, tenants: int) -> Iterator[str]:
    """Equal shares of the top cells. A remainder is shared one level below, down to machines."""
    lines = []
    for name, number in Counter(names.of(top) for top in tops).items():
        cell, path, left = next(top for top in tops if names.of(top) == name), name, number
        while True:
            if share := left // tenants:
                lines.append(f"    - {{cellType: {path}, cellNumber: {share}}} # of {left}")
            left = left % tenants * len(cell.children)
            if not left:
                break
            cell = cell.children[0]
            path += f".{names.of(cell)}"
    yield "    virtualCells:" + ("" if lines else " []")
    yield from lines


def _wrapped(settings: Iterable[str]) -> Iterator[str]:
    yield from ("algorithm:", "  name: hived", "  settings:")
    yield from (f"    {line}" for line in settings)
    yield from ("pods:", "  resource: hivedscheduler.microsoft.com/pod-scheduling-enable")


def _opening(machines: int, wishes: Wishes, remarks: Iterable[str]) -> Iterator[str]:
    by = f", grouped by {' and '.join(wishes.levels)}" if wishes.levels else ""
    yield f"Written by `waggle hived init` from {machines} nodes with {' or '.join(wishes.resources)}{by}."
    yield "What to decide now: who is promised what (virtualClusters). docs/algorithm-hived.md has all fields."
    yield from remarks


def _remarks(known: Sequence[Node], machines: Sequence[_Cell], wishes: Wishes) -> Iterator[str]:
    names = {machine.address for machine in machines}
    without = [node.name for node in known if node.name not in names]
    if without:
        yield f"Left out, as they have no {' or '.join(wishes.resources)}: {_listed(without)}."
    alone = [machine.address for machine in machines if wishes.levels and not machine.groups]
    if alone:
        which = "the label" if len(wishes.levels) == 1 else "one of the labels"
        yield f"On their own, as they lack {which} {', '.join(wishes.levels)}: {_listed(alone)}."
    away = [node.name for node in known if node.name in names and (node.unschedulable or not node.ready)]
    if away:
        yield f"Not Ready or cordoned now, but part of it: {_listed(away)}."
    yield from _unequal(machines)


def _unequal(machines: Sequence[_Cell]) -> Iterator[str]:
    for device in sorted({machine.device for machine in machines}):
        sizes: dict[int, list[str]] = {}
        for machine in machines:
            if machine.device == device:
                sizes.setdefault(machine.sizes[0], []).append(machine.address)
        if len(sizes) > 1:
            most = max(sizes, key=lambda size: (len(sizes[size]), size))
            odd = [f"{size} on {_listed(names)}" for size, names in sorted(sizes.items()) if size != most]
            yield f"Machines with {device} differ: most have {most} devices, but {'; '.join(odd)}. Is a device missing?"


def _nothing_found(known: Sequence[Node], wishes: Wishes) -> str:
    others = sorted({name for node in known for name, _ in node.allocatable if "/" in name})
    there_is = f"; they have {', '.join(others)}: name your devices with --resource" if others else ""
    return f"none of {len(known)} nodes has {' or '.join(wishes.resources)} in status.allocatable{there_is}"


def _check_levels(nodes: Iterable[Node], machines: Collection[str], wishes: Wishes) -> None:
    """Raises DraftError for a label that no machine has: it is misspelt, and would leave each machine on its own."""
    known = sorted({name for node in nodes if node.name in machines for name, value in node.labels if value})
    for level in wishes.levels:
        if level not in known:
            there_is = near(level, known) or f"; they have {_listed(known) or 'no labels'}"
            raise DraftError(f"--level: none of the {len(machines)} nodes with devices has the label {level}{there_is}")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _scalar(text: str) -> str:
    """Quoted where YAML would read it as something other than a text."""
    return text if _SAFE.fullmatch(text) and not _NOT_TEXT.fullmatch(text) else json.dumps(text)
