"""Filters for a search: which nodes may be used, as cheap as possible."""

from __future__ import annotations

from typing import Protocol

from algorithm.interface import SuggestedNodes

_FEW_NODES = 16


class Allowed(Protocol):
    """Whether a known node may be used. `few` has all allowed nodes, if looking at each is cheapest; else None."""

    @property
    def few(self) -> tuple[str, ...] | None: ...

    def __call__(self, name: str) -> bool: ...


class Offer:
    """The nodes that kube-scheduler offered for one pod."""

    __slots__ = ("few", "nodes")

    def __init__(self, nodes: SuggestedNodes) -> None:
        self.nodes = nodes
        self.few = nodes[:] if len(nodes) <= _FEW_NODES else None

    def __call__(self, name: str) -> bool:
        return name in self.nodes
