"""A cache of findings about every node, by demand (or what else is asked about). A node is looked at again only after
it has changed.

A cluster event changes one node, and then kube-scheduler asks about every waiting pod. With this cache, one node is
looked at instead of thousands. The cache cannot be observed: the answers are those of a fresh look.

The first look is at every node. Where there is a quicker way to find out once, `want` and `if_wanted` leave that look
to the second time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from itertools import count
from typing import Generic, TypeVar

from algorithm.packing.nodes import Cluster, NodeRoom

#: Demands that are remembered. Each costs a third of a megabyte with 5,000 nodes.
REMEMBERED = 64

#: Changes of findings that are remembered by each table.
_CHANGES = 64

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
_versions = count()


class PerDemand(Generic[K, T]):
    """What `look` says of every node that it says something of. `look` reads the node and the demand, nothing else."""

    def __init__(self, cluster: Cluster, look: Callable[[NodeRoom, K], T | None]) -> None:
        self._cluster = cluster
        self._look = look
        self._tables: dict[K, Table[T]] = {}
        self._wanted: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._tables)

    def of(self, demand: K) -> Mapping[str, T]:
        """The findings by node name, as of now: read them before the next change, and not during a trial."""
        return self.table(demand).found

    def want(self, demand: K) -> None:
        """This was asked about, and may be asked about again."""
        if demand not in self._tables:
            if len(self._wanted) >= REMEMBERED:
                del self._wanted[next(iter(self._wanted))]
            self._wanted[demand] = None

    def if_wanted(self, demand: K) -> Mapping[str, T] | None:
        """The same as `of`; None if nobody has wanted it so far."""
        if demand not in self._tables:
            if demand not in self._wanted:
                return None
            del self._wanted[demand]
        return self.table(demand).found

    def table(self, demand: K) -> Table[T]:
        """The findings with their version."""
        table = self._tables.pop(demand, None)
        if table is None:
            table = Table()
            if len(self._tables) >= REMEMBERED:
                del self._tables[next(iter(self._tables))]
        self._tables[demand] = table
        table.refresh(self._cluster, demand, self._look)
        return table

    def validate(self) -> None:
        """Compares what is remembered with a fresh look. Raises AssertionError."""
        for demand in tuple(self._tables):
            fresh: Table[T] = Table()
            fresh.refresh(self._cluster, demand, self._look)
            assert self.of(demand) == fresh.found, f"what is remembered for {demand} is stale"


class Table(Generic[T]):
    """The findings for one demand, as of a generation of the cluster.

    `version` is another number, which no table has had before, whenever a finding differs. Most changes of a node
    change none.
    """

    __slots__ = ("_changes", "_generation", "_since", "found", "version")

    def __init__(self) -> None:
        self.found: dict[str, T] = {}
        self.version = next(_versions)
        self._generation = -1
        #: The version after each change, and the node: all changes after the version `_since`.
        self._changes: deque[tuple[int, str]] = deque()
        self._since = self.version

    def changes_since(self, version: int) -> list[str] | None:
        """The nodes whose finding has changed after that version; None if it is too old."""
        return [name for at, name in self._changes if at > version] if version >= self._since else None

    def refresh(self, cluster: Cluster, demand: K, look: Callable[[NodeRoom, K], T | None]) -> None:
        if self._generation == cluster.generation:
            return
        changed = cluster.changed_since(self._generation) if self._generation >= 0 else None
        if changed is None:
            findings = ((name, look(room, demand)) for name, room in cluster.rooms.items())
            self.found = {name: finding for name, finding in findings if finding is not None}
            self.version = self._since = next(_versions)
            self._changes.clear()
        else:
            for name in changed:
                room = cluster.rooms.get(name)
                self._set(name, None if room is None else look(room, demand))
        self._generation = cluster.generation

    def _set(self, name: str, finding: T | None) -> None:
        if finding == self.found.get(name):
            return
        if finding is None:
            del self.found[name]
        else:
            self.found[name] = finding
        self.version = next(_versions)
        self._changes.append((self.version, name))
        if len(self._changes) > _CHANGES:
            self._since = self._changes.popleft()[0]
