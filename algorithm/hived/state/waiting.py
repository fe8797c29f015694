"""Counts the pods that wait for a place, by virtual cluster and by group."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from algorithm.hived.formats.podspec import PodSpec
from algorithm.hived.state.groups import Group
from algorithm.tables import Table

T = TypeVar("T")


class Waiting:
    """What is known of the pods that wait. Nothing that is 0 is listed."""

    def __init__(self) -> None:
        self._specs: dict[str, PodSpec] = Table()
        #: By virtual cluster; also of such that do not exist.
        self.pods: Counter[str] = Counter()
        self.devices: Counter[str] = Counter()
        self._members: Counter[tuple[str, str, int]] = Counter()

    def __contains__(self, uid: object) -> bool:
        return uid in self._specs

    def add(self, uid: str, spec: PodSpec) -> None:
        self.drop(uid)
        self._specs[uid] = spec
        self.pods[spec.tenant] += 1
        self.devices[spec.tenant] += spec.leafs
        self._members[spec.tenant, spec.group, spec.leafs] += 1

    def drop(self, uid: str) -> PodSpec | None:
        """The pod waits no more; None if it did not."""
        spec = self._specs.pop(uid, None)
        if spec is not None:
            _less(self.pods, spec.tenant, 1)
            _less(self.devices, spec.tenant, spec.leafs)
            _less(self._members, (spec.tenant, spec.group, spec.leafs), 1)
        return spec

    def waiting_members(self, group: Group, devices: int) -> int:
        """Pods of this group, with so many devices each, that wait."""
        return self._members[group.tenant, group.name, devices]


def _less(counts: Counter[T], key: T, number: int) -> None:
    counts[key] -= number
    if not counts[key]:
        del counts[key]
