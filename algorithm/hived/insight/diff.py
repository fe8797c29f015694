"""What another configuration changes: hardware, promises, pinned cells, settings. Nothing runs yet; see `outcomes.py`.

A configuration that is refused as a whole is compared too, as far as its parts can be read: its author wants to know
what it would have changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from algorithm.hived.cells.chains import Layout
from algorithm.hived.cells.config import CellType, HivedConfig, VirtualCluster, read_config
from algorithm.hived.cells.fit import Room, rooms
from algorithm.hived.cells.layout import hardware
from algorithm.hived.settings import HivedSettings

_SECTIONS = ("physicalCluster", "virtualClusters")


class Kind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs: what it is (cellType, cells, machine, virtualCluster, pinnedCell, setting), its name, and
    how it is described before and after ("" where it does not exist)."""

    what: str
    name: str
    before: str = ""
    after: str = ""

    @property
    def kind(self) -> Kind:
        if not self.before:
            return Kind.ADDED
        return Kind.CHANGED if self.after else Kind.REMOVED


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """What differs between two settings of the algorithm, as loaded. Raises HivedConfigError for what cannot be read.

    Whether the promises of either fit is not asked.
    """
    before, after = _Described(old), _Described(new)
    return [change for what in before.things for change in _differences(what, before.things[what], after.things[what])]


def room(layout: Layout) -> Iterator[Room]:
    """What the promises leave over, chain by chain, from the top down."""
    for chain in layout.chains.values():
        yield from rooms(chain, layout.tenants.values(), layout.pinned.values())


def _differences(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in {**before, **after}:
        change = Change(what, name, before.get(name, ""), after.get(name, ""))
        if change.before != change.after:
            yield change


class _Described:
    """What there is, by kind and name, each in a few words."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        lax = str(settings.get("lax")).lower() == "true"
        sections = {key: settings[key] for key in _SECTIONS if settings.get(key) is not None}
        config = read_config(sections, lax=lax)
        self._chains, self._pins = hardware(config)
        self.things: dict[str, dict[str, str]] = {
            "cellType": {name: _cell_type(type_) for name, type_ in config.physical_cluster.cell_types.items()},
            "cells": {name: str(len(chain.full[chain.top])) for name, chain in self._chains.items()},
            "machine": self._machines(),
            "virtualCluster": {name: _promise(tenant) for name, tenant in config.virtual_clusters.items()},
            "pinnedCell": self._pinned(config),
            "setting": _others(settings),
        }

    def _machines(self) -> dict[str, str]:
        """How many devices of what, and in which chain. A machine may be in several."""
        found: dict[str, list[str]] = {}
        for chain in self._chains.values():
            for machine, devices in Counter(leaf.nodes[0] for leaf in chain.full[1]).items():
                found.setdefault(machine, []).append(f"{devices} {chain.leaf_type} in {chain.name}")
        return {machine: " and ".join(where) for machine, where in found.items()}

    def _pinned(self, config: HivedConfig) -> dict[str, str]:
        tenants = config.virtual_clusters.items()
        owners = {pin.pinned_cell_id: name for name, tenant in tenants for pin in tenant.pinned_cells}
        return {
            pinned_id: f"{cell.type} {cell.address} for {owners.get(pinned_id, 'nobody')}"
            for pinned_id, cell in self._pins.items()
        }


def _cell_type(type_: CellType) -> str:
    machine = ", a machine" if type_.is_node_level else ""
    return f"{type_.child_cell_number} {type_.child_cell_type}{machine}"


def _promise(tenant: VirtualCluster) -> str:
    cells: Counter[str] = Counter()
    for spec in tenant.virtual_cells:
        cells[spec.cell_type] += spec.cell_number
    pinned = [f"pinned {pin.pinned_cell_id}" for pin in tenant.pinned_cells]
    return ", ".join([*(f"{number} {path}" for path, number in cells.items() if number), *pinned]) or "nothing"


def _others(settings: Mapping[str, Any]) -> dict[str, str]:
    """The choices beside the two sections, made or by default."""
    found = {}
    for name, field in HivedSettings.model_fields.items():
        key, default = field.alias or name, field.get_default(call_default_factory=True)
        given = settings.get(key)
        if key not in _SECTIONS:
            is_default = given is None or (not given and default is not None)
            found[key] = _choice(default if is_default else given)
    return found


def _choice(value: Any) -> str:
    """The same text however it was loaded, and however a choice that was not made is represented."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_choice(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_choice, value)) + "]" if value else "none"
    return "none" if value is None or isinstance(value, BaseModel) else str(value)
