"""A request: a gang of pods, the number of devices of each, and the machines that kube-scheduler offers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


class Offered:
    """The offered machines. A request that ignores them is offered everything."""

    __slots__ = ("ignored", "names")

    def __init__(self, names: Collection[str], *, ignored: bool) -> None:
        self.names, self.ignored = names, ignored

    def __contains__(self, node: str) -> bool:
        return self.ignored or node in self.names


@dataclass(frozen=True, slots=True)
class Request:
    """`pods` maps devices per pod to the number of such pods, smallest first.

    `priority` is -1 (opportunistic) or more.
    """

    tenant: str
    priority: int
    pods: dict[int, int]
    pinned_id: str
    offered: Offered

    @property
    def guaranteed(self) -> bool:
        return self.priority >= 0
