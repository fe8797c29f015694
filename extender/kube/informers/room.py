"""Limits the memory that the nodes and pods of a cluster may take, so that no list and no watch can fill it.

    all           `cluster.cache_mib`
    nodes         at most a quarter of it
    pods          at most three quarters of it, and no more than the nodes plausibly have: 192 MiB (45,000 ordinary
                  pods, waiting or ended) and 512 KiB (120 pods) a node
      decisions   at most a sixteenth of that, see decisions.py; one namespace has 512 KiB and 8 KiB a node for plans of
                  gangs (a plan that uses 16 devices of each node one by one), and eight times that for other texts

Bytes are estimates (`store.weigh`). If there are more, no object is left out, since the room of an unknown pod would be
given away twice. Instead the list or watch fails, the objects known before stay, and the refusal is recorded
(bounds.py).
"""

from __future__ import annotations

from collections.abc import Callable

from extender.kube.client.bounds import KIB, MIB
from extender.kube.informers.decisions import DecisionRoom

_PODS_ANYWAY = 192 * MIB
_PODS_OF_A_NODE = 512 * KIB
_GANGS_ANYWAY = 512 * KIB
_GANGS_OF_A_NODE = 8 * KIB


class MemoryBudget:
    """Computes the limits. `mib`: for nodes and pods together; `nodes_known` returns the number of nodes."""

    def __init__(self, mib: int, nodes_known: Callable[[], int]) -> None:
        self._bytes = mib * MIB
        self._nodes_known = nodes_known

    def for_nodes(self) -> int:
        """Bytes that all nodes may take."""
        return self._bytes // 4

    def for_pods(self) -> int:
        """Bytes that all pods may take, without the texts of their decisions, which are counted separately."""
        return self._pods() * 15 // 16

    def for_decisions(self) -> DecisionRoom:
        """The limits of decisions on pods."""
        return DecisionRoom(gangs=self._gangs, others=lambda: 8 * self._gangs(), total=lambda: self._pods() // 16)

    def _pods(self) -> int:
        return min(self._bytes * 3 // 4, _PODS_ANYWAY + _PODS_OF_A_NODE * self._nodes_known())

    def _gangs(self) -> int:
        return _GANGS_ANYWAY + _GANGS_OF_A_NODE * self._nodes_known()
