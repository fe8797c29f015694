"""Counts devices by virtual cluster and chain, as they are taken and given back. Limits and metrics use these counts.

*Used* devices are held within a promise, *borrowed* ones without one (opportunistic pods, and gangs that were preempted
lazily). Devices that a preemptor has reserved count for the preemptor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from algorithm.hived.cells.cells import PhysicalCell, VirtualCell
from algorithm.hived.cells.chains import Layout, Tenant, preassigned

#: Virtual cluster and chain.
Where = tuple[str, str]


class Usage:
    """Devices in use. Nothing that is 0 is listed."""

    def __init__(self) -> None:
        self.used: Counter[Where] = Counter()
        self.borrowed: Counter[Where] = Counter()

    def add(self, tenant: str, chain: str, number: int, promised: bool) -> None:
        """So many devices more (or less, if negative)."""
        counts = self.used if promised else self.borrowed
        counts[tenant, chain] += number
        if not counts[tenant, chain]:
            del counts[tenant, chain]


def guaranteed(layout: Layout) -> Counter[Where]:
    """Devices that were promised."""
    found: Counter[Where] = Counter()
    for tenant in layout.tenants.values():
        for cell in preassigned(tenant):
            found[tenant.name, cell.chain] += cell.leafs
    return found


def bad(layout: Layout) -> Counter[Where]:
    """Promised devices that are bad hardware now, used or not.

    Costs one look at each promised cell, and more only where something is bad.
    """
    found: Counter[Where] = Counter()
    for tenant in layout.tenants.values():
        for cell in _unhealthy(tenant):
            assert cell.physical is not None
            found[tenant.name, cell.chain] += _bad_devices(cell.physical)
    return found


def _unhealthy(tenant: Tenant) -> Iterator[VirtualCell]:
    return (cell for cell in preassigned(tenant) if cell.physical is not None and not cell.physical.healthy)


def _bad_devices(cell: PhysicalCell) -> int:
    if not cell.children:
        return 1
    return sum(_bad_devices(child) for child in cell.children if not child.healthy)
