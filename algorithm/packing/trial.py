"""What-if on the real cluster: take and free room, look, and at the end undo every change.

    with Trial(cluster) as trial:
        trial.evict(pod)         # as if a victim were gone
        node = trial.best(...)
        trial.take(node, ...)    # as if the pod were there

Only free amounts change in the block, and leaving it undoes the changes, also after an exception. So `schedule` can use
the index and still leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from algorithm.model import Pod, fits
from algorithm.packing.demand import Demand, demand_of
from algorithm.packing.index import Allowed
from algorithm.packing.nodes import Cluster, Hold, NodeRoom

#: The most victims for one gang: the cost of finding them grows with their number.
MOST_VICTIMS = 2000
_NO_LIMIT = 1 << 40


class TooManyVictimsError(Exception):
    """More victims are needed than are allowed."""


def most_victims(needed: int) -> int:
    """The most victims for `needed` members of a gang. The victims of a single pod run on one node, and are few."""
    return MOST_VICTIMS if needed > 1 else _NO_LIMIT


class Trial:
    """Changes of free amounts that are undone at the end of the block. `victims` is the most evictions in it."""

    def __init__(self, cluster: Cluster, victims: int = _NO_LIMIT) -> None:
        self.cluster = cluster
        self._victims = victims
        #: UIDs of the pods that count as gone in the trial.
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
        undone = self._journal[mark:]
        del self._journal[mark:]
        self.cluster.shift_all([(name, demand, -sign) for name, demand, sign, _ in undone])
        if self.gone:
            self.gone.difference_update(uid for *_, uid in undone)

    def changed(self) -> dict[str, dict[str, int]]:
        """The free amounts, in the trial, on the nodes that it has changed."""
        return {name: dict(self.cluster.free_of(name)) for name in self.touched()}

    def touched(self) -> set[str]:
        """The names of the nodes that the trial has changed."""
        return {name for name, *_ in self._journal}

    def take(self, node: str, demand: Demand) -> None:
        self._change(node, demand, -1)

    def give(self, node: str, demand: Demand) -> None:
        """Free room that was taken in the trial."""
        self._change(node, demand, 1)

    def take_best(self, number: int, demand: Demand, allowed: Allowed, *, last: bool = False) -> list[str]:
        """Take room for `number` equal pods, each on the best node; for fewer if there is no room for more.

        The nodes are those that as many calls of `best` and `take` would choose. If the trial looks for nothing
        afterwards (`last`), room is really taken only if there are fewer nodes.
        """
        nodes, times = self.cluster.best_for(number, demand, allowed)
        if not last or len(nodes) < number:
            for node, there in times.items():
                self.take(node, tuple((name, there * amount) for name, amount in demand))
        return nodes

    def release(self, hold: Hold | None) -> None:
        """Release the hold in the trial."""
        if hold is not None:
            self._change(hold.node, hold.demand, 1)

    def evict_all(self, pods: Iterable[Pod]) -> None:
        """Evict these pods in the trial. Raises TooManyVictimsError."""
        for pod in pods:
            self._victims -= 1
            self.evict(pod)
        if self._victims < 0:
            raise TooManyVictimsError

    def evict(self, pod: Pod) -> None:
        """Count this pod as gone from its node."""
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
