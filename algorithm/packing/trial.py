"""What-if on the real cluster: take, give, look, and at the end everything is as it was.

    with Trial(cluster) as trial:
        trial.give(...)          # as if a victim were gone
        node = trial.best(...)
        trial.take(node, ...)    # as if the pod were there

Nothing but free amounts changes meanwhile, and leaving the block undoes it, whatever happened inside. That is how
`schedule` leaves no trace and still has the index at hand.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from algorithm.model import Pod
from algorithm.packing.demand import Demand, demand_of, fits
from algorithm.packing.nodes import Cluster, Hold, NodeRoom
from algorithm.packing.offer import Allowed


class Trial:
    """Changes of free amounts that are undone at the end of the block."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: UIDs of the pods that the trial takes for gone.
        self.gone: set[str] = set()
        self._journal: list[tuple[str, Demand, int, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.back_to(0)

    def mark(self) -> int:
        """A point to which `back_to` can return."""
        return len(self._journal)

    def back_to(self, mark: int) -> None:
        while len(self._journal) > mark:
            name, demand, sign, uid = self._journal.pop()
            self.cluster.shift(name, demand, -sign)
            self.gone.discard(uid)

    def changed(self) -> dict[str, dict[str, int]]:
        """What is free, for now, on the nodes that the trial has touched."""
        return {name: dict(self.cluster.free_of(name)) for name, *_ in self._journal}

    def take(self, node: str, demand: Demand) -> None:
        self._change(node, demand, -1)

    def release(self, hold: Hold | None) -> None:
        """As if nothing were held by this hold."""
        if hold is not None:
            self._change(hold.node, hold.demand, 1)

    def evict(self, pod: Pod) -> None:
        """As if this pod were gone from its node."""
        if pod.uid not in self.gone:
            self._change(pod.node_name, demand_of(pod.requests), 1, pod.uid)
            self.gone.add(pod.uid)

    def pods_on(self, room: NodeRoom) -> list[Pod]:
        """The pods that still run on the node."""
        return [pod for uid, pod in room.pods.items() if uid not in self.gone]

    def best(self, demand: Demand, allowed: Allowed, prefer: str | None = None) -> str | None:
        """The node to take: `prefer` if it is known, allowed and has room, else the best one."""
        if prefer is not None and self.cluster.known(prefer) and allowed(prefer) and self.room_on(prefer, demand):
            return prefer
        return self.cluster.best(demand, allowed)

    def room_on(self, node: str, demand: Demand) -> bool:
        return fits(demand, self.cluster.free_of(node))

    def _change(self, node: str, demand: Demand, sign: int, uid: str = "") -> None:
        self.cluster.shift(node, demand, sign)
        self._journal.append((node, demand, sign, uid))
