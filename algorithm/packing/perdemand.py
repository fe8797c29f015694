"""A cache of findings about every node, by demand. A node is looked at again only after it has changed.

A cluster event changes one node, and then kube-scheduler asks about every waiting pod. With this cache, one node is
looked at instead of thousands. The cache cannot be observed: the answers are those of a fresh look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from algorithm.packing.demand import Demand
from algorithm.packing.nodes import Cluster, NodeRoom

#: Demands that are remembered. Each costs a third of a megabyte with 5,000 nodes.
REMEMBERED = 64

T = TypeVar("T")


class PerDemand(Generic[T]):
    """What `look` says of every node that it says something of. `look` reads the node and the demand, nothing else."""

    def __init__(self, cluster: Cluster, look: Callable[[NodeRoom, Demand], T | None]) -> None:
        self._cluster = cluster
        self._look = look
        self._tables: dict[Demand, _Table[T]] = {}

    def __len__(self) -> int:
        return len(self._tables)

    def of(self, demand: Demand) -> Mapping[str, T]:
        """The findings by node name, as of now: read them before the next change, and not during a trial."""
        table = self._tables.pop(demand, None)
        if table is None:
            table = _Table()
            if len(self._tables) >= REMEMBERED:
                del self._tables[next(iter(self._tables))]
        self._tables[demand] = table
        table.refresh(self._cluster, demand, self._look)
        return table.found

    def validate(self) -> None:
        """Compares what is remembered with a fresh look. Raises AssertionError."""
        for demand in tuple(self._tables):
            fresh: _Table[T] = _Table()
            fresh.refresh(self._cluster, demand, self._look)
            assert self.of(demand) == fresh.found, f"what is remembered for {demand} is stale"


class _Table(Generic[T]):
    """The findings for one demand, as of a generation of the cluster."""

    __slots__ = ("_generation", "found")

    def __init__(self) -> None:
        self.found: dict[str, T] = {}
        self._generation = -1

    def refresh(self, cluster: Cluster, demand: Demand, look: Callable[[NodeRoom, Demand], T | None]) -> None:
        changed = cluster.changed_since(self._generation) if self._generation >= 0 else None
        if changed is None:
            self.found.clear()
        for name in cluster.rooms if changed is None else changed:
            room = cluster.rooms.get(name)
            finding = None if room is None else look(room, demand)
            if finding is None:
                self.found.pop(name, None)
            else:
                self.found[name] = finding
        self._generation = cluster.generation
