"""The state that plug-ins read: free room by pod, and the spread of a vpod over pods, nodes and zones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from algorithm.placements.model import Counts

K = TypeVar("K", bound=Hashable)
#: Reservations by vpod: vreplicas by ordinal. An entry of 0 says that the vpod is to have none there.
Reservations = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Committed:
    """A vpod as it is listed."""

    key: str
    wanted: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Cluster:
    """The set and its surroundings.

    `usable` are ordinals, `nodes` the nodes of all pods that have one, `zones` the zones of the nodes that can be used.
    """

    capacity: int
    replicas: int
    usable: frozenset[int]
    nodes: Mapping[int, str]
    zones: Mapping[str, str]


@dataclass(slots=True)
class Snapshot:
    """The state at one moment. `free` is by ordinal and may be negative; beyond its end a pod has all its capacity."""

    cluster: Cluster
    free: list[int] = field(default_factory=list)
    pods: dict[str, dict[int, int]] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> list[int]:
        return sorted(self.cluster.usable)

    @property
    def last_ordinal(self) -> int:
        return len(self.free) - 1

    def free_on(self, ordinal: int) -> int:
        return self.free[ordinal] if ordinal < len(self.free) else self.cluster.capacity

    def take(self, ordinal: int, number: int) -> None:
        """Take room on a pod, more than it has if need be."""
        self.free += [self.cluster.capacity] * (ordinal + 1 - len(self.free))
        self.free[ordinal] -= number

    def spread(self, key: str, ordinal: int, number: int) -> None:
        if ordinal in self.cluster.usable:
            spread = self.pods[key]
            spread[ordinal] = spread.get(ordinal, 0) + number

    def by_node(self, key: str) -> dict[str, int]:
        """The spread of a vpod over nodes."""
        return _sums(self.pods.get(key, {}), self.cluster.nodes)

    def by_zone(self, key: str) -> dict[str, int]:
        """The spread of a vpod over zones."""
        return _sums(self.by_node(key), self.cluster.zones)

    @property
    def free_capacity(self) -> int:
        return sum(self.free_on(ordinal) for ordinal in self.cluster.usable)


def _sums(counts: Mapping[K, int], groups: Mapping[K, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each, number in counts.items():
        found[groups[each]] = found.get(groups[each], 0) + number
    return found


def collect(cluster: Cluster, vpods: Iterable[Committed], reserved: Reservations) -> Snapshot:
    """Build the state from what is committed and reserved.

    Reservations that have been committed are taken out of `reserved`.
    """
    found = Snapshot(cluster)
    for ordinal in sorted(cluster.usable):
        found.take(ordinal, 0)
    listed = {}
    for vpod in vpods:
        listed[vpod.key] = vpod.counts
        found.pending[vpod.key] = max(0, vpod.wanted - sum(vpod.counts.values()))
        found.wanted[vpod.key] = vpod.wanted
        found.pods[vpod.key] = {}
        for ordinal, committed in vpod.counts.items():
            number = _with_reserved(vpod.key, ordinal, committed, reserved)
            found.take(ordinal, number)
            found.spread(vpod.key, ordinal, number)
    for key, counts in reserved.items():
        for ordinal, number in counts.items():
            if ordinal in listed.get(key, ()):
                continue
            found.take(ordinal, number)
            if key in listed:
                found.spread(key, ordinal, number)
    return found


def _with_reserved(key: str, ordinal: int, committed: int, reserved: Reservations) -> int:
    counts = reserved.get(key)
    if counts is None or ordinal not in counts:
        return committed
    if counts[ordinal] != committed:
        return counts[ordinal]
    del counts[ordinal]
    if not counts:
        del reserved[key]
    return committed
