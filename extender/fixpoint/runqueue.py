"""The nodes that can run: first come, first served, or by an order of the caller's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Generic

from extender.fixpoint.records import Id
from extender.fixpoint.things import QUEUED, Node


class RunQueue(Generic[Id]):
    """`order`: returns what to compare ids by, the smallest first; equals come in the order in which they queued."""

    def __init__(self, order: Callable[[Id], Any] | None = None) -> None:
        self._order = order
        self._fifo: deque[Node[Id]] = deque()
        self._heap: list[tuple[Any, int, Node[Id]]] = []
        self._pushes = count()

    def push(self, node: Node[Id]) -> None:
        if self._order is None:
            self._fifo.append(node)
        else:
            heappush(self._heap, (self._order(node.id), next(self._pushes), node))

    def pop(self) -> Node[Id] | None:
        """Return the next node; None if there is none. Nodes that were removed meanwhile are left out."""
        while self._fifo or self._heap:
            node = self._fifo.popleft() if self._fifo else heappop(self._heap)[2]
            if node.state is QUEUED and not node.gone:
                return node
        return None

    def __bool__(self) -> bool:
        return bool(self._fifo or self._heap)
