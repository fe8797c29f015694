"""Checks whether all promises can be kept at once, by counting the hardware that is left beside the pinned cells.

A pinned cell is one particular piece of hardware. It takes everything inside it, and the larger cells around it are no
longer whole. The trees of a chain are uniform, so counting is exact for the other promises: whichever whole cells of a
level are handed out first, the same number of smaller ones is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from algorithm.hived.cells.cells import PhysicalCell
from algorithm.hived.cells.chains import Chain, Tenant
from algorithm.hived.cells.config import HivedConfigError

#: So many pinned cells are named in one message.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Room:
    """Whole cells of one level of a chain: how many are promised, pinned ones included, and how many are left.

    `left` is negative where more is promised than there is.
    """

    chain: str
    cell_type: str
    promised: int
    left: int


def rooms(chain: Chain, tenants: Iterable[Tenant], pinned: Iterable[PhysicalCell]) -> Iterator[Room]:
    """Level by level, from the top down. `pinned` are the cells that are pinned for tenants, no two of them nested."""
    here = [cell for cell in pinned if cell.chain == chain.name]
    whole = _whole(chain, here)
    tenants = list(tenants)
    taken = 0
    for level in range(chain.top, 0, -1):
        open_ = sum(_number(tenant, chain, level) for tenant in tenants)
        taken += open_
        promised = open_ + sum(cell.level == level for cell in here)
        yield Room(chain.name, chain.levels[level].type, promised, whole[level] - taken)
        taken *= chain.levels[level].fanout


def check(chains: Iterable[Chain], tenants: Mapping[str, Tenant], pinned: Mapping[str, PhysicalCell]) -> None:
    """Raises HivedConfigError, which names the promise that cannot be kept. `pinned` includes cells of nobody."""
    owners = _owners(tenants)
    mine = {pinned_id: pinned[pinned_id] for pinned_id in owners}
    _check_nested(mine, owners)
    for chain in chains:
        levels = range(chain.top, 0, -1)
        for level, room in zip(levels, rooms(chain, tenants.values(), mine.values()), strict=True):
            if room.left < 0:
                wanted = {name: _number(tenant, chain, level) for name, tenant in tenants.items()}
                text = _too_much(room, wanted) + _beside(chain, mine, owners)
                raise HivedConfigError("virtualClusters", text)


def _owners(tenants: Mapping[str, Tenant]) -> dict[str, str]:
    """The virtual cluster that each cell is pinned for."""
    owners: dict[str, str] = {}
    for tenant in tenants.values():
        for pinned_id in tenant.pinned:
            if pinned_id in owners:
                where = f"virtualClusters.{tenant.name}.pinnedCells"
                raise HivedConfigError(where, f"{pinned_id} is pinned for {owners[pinned_id]} already")
            owners[pinned_id] = tenant.name
    return owners


def _check_nested(pinned: Mapping[str, PhysicalCell], owners: Mapping[str, str]) -> None:
    ids = {cell: pinned_id for pinned_id, cell in pinned.items()}
    for pinned_id, cell in pinned.items():
        above = cell.parent
        while above is not None:
            if above in ids:
                text = f"{pinned_id} is a part of {ids[above]}, which is pinned for {owners[ids[above]]}"
                raise HivedConfigError(f"virtualClusters.{owners[pinned_id]}.pinnedCells", text)
            above = above.parent


def _whole(chain: Chain, pinned: Iterable[PhysicalCell]) -> dict[int, int]:
    """By level: the cells that are no part of a pinned one, and of which none is a part."""
    whole = {level: len(cells) for level, cells in chain.full.items()}
    broken: set[PhysicalCell] = set()
    for cell in pinned:
        number = 1
        for level in range(cell.level, 0, -1):
            whole[level] -= number
            number *= chain.levels[level].fanout
        above = cell.parent
        while above is not None and above not in broken:
            broken.add(above)
            whole[above.level] -= 1
            above = above.parent
    return whole


def _number(tenant: Tenant, chain: Chain, level: int) -> int:
    """How many cells of the level the tenant is promised that are not pinned."""
    return len(tenant.preassigned.get(chain.name, {}).get(level, ()))


def _too_much(room: Room, wanted: Mapping[str, int]) -> str:
    needed = sum(wanted.values())
    who = ", ".join(f"{name} {number}" for name, number in wanted.items() if number)
    return f"promised {needed} cells {room.cell_type} of {room.chain} ({who}), but there are {room.left + needed}"


def _beside(chain: Chain, pinned: Mapping[str, PhysicalCell], owners: Mapping[str, str]) -> str:
    """The pinned cells of the chain: they may be the reason that so few are left."""
    here = [f"{id_} for {owners[id_]} ({cell.address})" for id_, cell in pinned.items() if cell.chain == chain.name]
    if not here:
        return ""
    more = f" and {len(here) - _NAMED} more" if len(here) > _NAMED else ""
    return f" whole ones beside what is pinned: {', '.join(here[:_NAMED])}{more}"
