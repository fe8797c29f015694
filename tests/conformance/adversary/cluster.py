"""Draws a cluster and its tenants: hardware of one to three chains, with pinned cells, and each tenant's promises."""

from __future__ import annotations

import copy
from math import prod
from random import Random
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import GROUP, Plugin
from algorithm.registry import available as plugins

#: Types from the devices up, how many of the one below each has, and which of them is the machine.
_SHAPES = (
    (("host",), (4,), 0),
    (("socket", "host"), (2, 2), 1),
    (("host", "rack"), (3, 2), 0),
    (("socket", "host", "rack"), (2, 2, 2), 1),
    (("switch", "socket", "host", "rack"), (2, 2, 2, 2), 2),
    (("host", "rack", "row"), (2, 2, 2), 0),
)
_SWITCHES = ("keepHealthyCellsWhole", "promoteLazilyPreempted", "combineCells", "obeyGangRelease")


def hived() -> Plugin[Any]:
    """The plug-in as it is published."""
    found = plugins()["hived"].load()
    assert isinstance(found, Plugin), GROUP
    return found


class Promise(NamedTuple):
    """One preassigned cell: its chain, how many devices it has, and the id of the pinned cell ("": none)."""

    chain: str
    devices: int
    pin: str


class _Shape(NamedTuple):
    names: tuple[str, ...]
    counts: tuple[int, ...]
    machine: int
    chain: str


class Cluster:
    """`settings` is the algorithm's configuration.

    `machines` has the chain of each machine, `width` the devices of a machine and `leaf` the device type by chain.
    `promised` is by tenant and address of the preassigned cell. `changes`: how often promises were drawn anew.
    """

    def __init__(self, rng: Random) -> None:
        self.machines: dict[str, str] = {}
        self.width: dict[str, int] = {}
        self.leaf: dict[str, str] = {}
        self.changes = 0
        #: Cell types with their devices, from the device up, of each chain.
        self._sizes: list[list[tuple[str, int]]] = []
        self._pinned: list[tuple[str, str, int]] = []
        types: dict[str, Any] = {}
        cells: list[dict[str, Any]] = []
        for number in range(rng.choice((1, 1, 1, 2, 3))):
            shape = self._draw_types(rng, number, types)
            for _ in range(rng.choice((1, 2, 2, 3))):
                top = len(shape.names) - 1
                cells.append({"cellType": shape.chain, **self._cell(rng, shape, top, is_pinned=False)})
        self.settings: dict[str, Any] = {
            "physicalCluster": {"cellTypes": types, "physicalCells": cells},
            **{switch: True for switch in _SWITCHES if rng.random() < 0.15},
        }
        self.promised: dict[tuple[str, str], Promise] = {}
        self._promise(rng)

    @property
    def tenants(self) -> list[str]:
        return list(self.settings["virtualClusters"])

    def has(self, switch: str) -> bool:
        return switch in self.settings

    def changed(self, rng: Random) -> Cluster:
        """The same hardware with other promises."""
        other = copy.copy(self)
        other.settings = dict(self.settings)
        other.changes += 1
        other._promise(rng)
        return other

    def algorithm(self) -> SchedulerAlgorithm:
        return hived().create(self._checked)

    # -- hardware -------------------------------------------------------------------------------------------------

    def _draw_types(self, rng: Random, number: int, types: dict[str, Any]) -> _Shape:
        names, counts, machine = rng.choice(_SHAPES)
        leaf = rng.choice(("gpu", "old"))
        below, size = leaf, 1
        sizes = [(leaf, 1)]
        for level, (name, count) in enumerate(zip(names, counts, strict=True)):
            own = f"{name}{number}"
            types[own] = {"childCellType": below, "childCellNumber": count, "isNodeLevel": level == machine}
            below, size = own, size * count
            sizes.append((own, size))
        self._sizes.append(sizes)
        self.leaf[below], self.width[below] = leaf, prod(counts[: machine + 1])
        return _Shape(names, counts, machine, below)

    def _cell(self, rng: Random, shape: _Shape, level: int, *, is_pinned: bool) -> dict[str, Any]:
        cell: dict[str, Any] = {}
        if level == shape.machine:
            cell["cellAddress"] = f"m{len(self.machines)}"
            self.machines[cell["cellAddress"]] = shape.chain
        if not is_pinned and rng.random() < 0.08:
            is_pinned = True
            cell["pinnedCellId"] = f"p{len(self._pinned)}"
            self._pinned.append((cell["pinnedCellId"], shape.chain, prod(shape.counts[: level + 1])))
        if level > shape.machine or (0 < level == shape.machine and rng.random() < 0.5):
            number = shape.counts[level]
            cell["cellChildren"] = [self._cell(rng, shape, level - 1, is_pinned=is_pinned) for _ in range(number)]
        return cell

    # -- promises -------------------------------------------------------------------------------------------------

    def _promise(self, rng: Random) -> None:
        """What cannot be promised, the configuration refuses."""
        names = "abc"[: rng.randint(1, 3)]
        tenants: dict[str, Any] = {name: {"virtualCells": [], "pinnedCells": []} for name in names}
        self.settings["virtualClusters"] = tenants
        for pin, _, _ in self._pinned:
            self._grant(tenants[rng.choice(names)]["pinnedCells"], {"pinnedCellId": pin})
        for _ in range(8):
            kinds = rng.choice(self._sizes)
            kind, _ = rng.choice(kinds)
            top = kinds[-1][0]
            wanted = {"cellType": top if kind == top else f"{top}.{kind}", "cellNumber": rng.choice((1, 1, 2))}
            self._grant(tenants[rng.choice(names)]["virtualCells"], wanted)
        self.promised = {
            (name, f"{name}/{number}"): promise
            for name, tenant in tenants.items()
            for number, promise in enumerate(self._promises(tenant))
        }
        self._checked: BaseModel = hived().settings.model_validate(self.settings)

    def _grant(self, promises: list[dict[str, Any]], promise: dict[str, Any]) -> None:
        promises.append(promise)
        try:
            hived().settings.model_validate(self.settings)
        except ValidationError:
            promises.pop()

    def _promises(self, tenant: dict[str, Any]) -> list[Promise]:
        """In the order in which their addresses are numbered."""
        found = []
        for each in tenant["virtualCells"]:
            chain, *_, kind = f"{each['cellType']}.{each['cellType']}".split(".")
            size = next(
                size for sizes in self._sizes for name, size in sizes if name == kind and self._is_in(chain, sizes)
            )
            found += [Promise(chain, size, "")] * each["cellNumber"]
        pinned = {pin: Promise(chain, size, pin) for pin, chain, size in self._pinned}
        return found + [pinned[each["pinnedCellId"]] for each in tenant["pinnedCells"]]

    @staticmethod
    def _is_in(chain: str, sizes: list[tuple[str, int]]) -> bool:
        return sizes[-1][0] == chain
