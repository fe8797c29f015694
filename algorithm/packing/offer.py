"""Which nodes may be used: filters for a search, as cheap as they can be."""

from __future__ import annotations

from typing import Protocol

from algorithm.interface import SuggestedNodes

_FEW_QUESTIONS = 3
_FEW_NODES = 16


class Allowed(Protocol):
    """Says of a known node whether it may be used. `few`: all there are, if looking at each is cheapest."""

    @property
    def few(self) -> tuple[str, ...] | None: ...

    def __call__(self, name: str) -> bool: ...


class Offer:
    """The nodes that kube-scheduler offered for one pod.

    Hashing 5,000 names costs a quarter millisecond. The index mostly proposes a node that was offered, so the first
    few questions are answered by comparing texts, and only who asks more often pays for the set.
    """

    __slots__ = ("_asked", "_names", "_set", "few", "nodes")

    def __init__(self, nodes: SuggestedNodes) -> None:
        self.nodes = nodes
        self._names = nodes[:]
        self._set: frozenset[str] | None = None
        self._asked = 0
        self.few = self._names if len(self._names) <= _FEW_NODES else None

    def __call__(self, name: str) -> bool:
        if self._set is None:
            self._asked += 1
            if self._asked <= _FEW_QUESTIONS:
                return name in self._names
            self._set = self.nodes.as_set()
        return name in self._set
