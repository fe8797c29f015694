"""Which nodes pods can not go to, as kube-scheduler's offers show it: a recording has no selectors, affinities and
tolerations of pods, but it has the nodes that kube-scheduler's own filters accepted.

A node is *excluded* for a kind of pods if kube-scheduler did not offer it although it was ready and had had room for
the pod for some time, twice if there were several attempts, and if no pod of the kind was ever offered it, or ran
there. Not every offer tells that:

    fewer nodes than MOST_OFFERED       with more, kube-scheduler looks at a sample of the nodes only
    the pod has no nominated node       such a pod is tried on that node first
    the first LOOKS attempts of a kind  so the cost does not grow with the number of attempts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from algorithm.model import PODS, Node, Pod, Resources

#: kube-scheduler looks at all nodes until it has found so many (minFeasibleNodesToFind).
MOST_OFFERED: Final = 100
#: Attempts of one kind of pods that are looked at; seconds for which a node must have had room.
LOOKS: Final = 20
SETTLED: Final = 5.0


@dataclass(slots=True)
class _Room:
    """A node: what is free on it, since when at least so much, and whether it takes pods."""

    free: dict[str, int]
    since: float
    takes_pods: bool


@dataclass(slots=True)
class _Kind:
    looks: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    accepted: set[str] = field(default_factory=set)


class Offers:
    """Keeps account of room on nodes, and of what was offered to which kind of pods."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Room] = {}
        self._pods: dict[str, tuple[str, Resources]] = {}
        self._kinds: dict[Hashable, _Kind] = {}

    def node(self, node: Node, now: float) -> None:
        """The node is there, or has changed."""
        takes = node.takes_pods
        known = self._nodes.get(node.name)
        if known is None or not known.takes_pods:
            free = dict(node.allocatable)
            for place, requests in self._pods.values():
                if place == node.name:
                    _add(free, requests, -1)
            self._nodes[node.name] = _Room(free, now, takes)
        known = self._nodes[node.name]
        known.takes_pods = takes

    def node_gone(self, name: str) -> None:
        self._nodes.pop(name, None)

    def placed(self, pod: Pod, node: str) -> None:
        """The pod takes room there."""
        if pod.uid in self._pods:
            return
        self._pods[pod.uid] = node, pod.requests
        if (room := self._nodes.get(node)) is not None:
            _add(room.free, pod.requests, -1)

    def left(self, uid: str, now: float) -> None:
        """The pod takes no room any more."""
        node, requests = self._pods.pop(uid, ("", ()))
        if (room := self._nodes.get(node)) is not None:
            _add(room.free, requests, 1)
            room.since = now

    def asked(self, kind: Hashable, pod: Pod, offered: Iterable[str], now: float) -> None:
        """kube-scheduler offers these nodes for the pod."""
        known = self._kinds.setdefault(kind, _Kind())
        names = list(offered)
        known.accepted.update(names)
        if known.looks >= LOOKS or len(names) >= MOST_OFFERED or pod.nominated_node_name:
            return
        known.looks += 1
        known.missed.update(
            name
            for name, room in self._nodes.items()
            if room.takes_pods and now - room.since >= SETTLED and _has_room(room.free, pod.requests)
        )

    def ran(self, kind: Hashable, node: str) -> None:
        """A pod of this kind ran there."""
        self._kinds.setdefault(kind, _Kind()).accepted.add(node)

    def excluded(self, kind: Hashable) -> tuple[str, ...]:
        """Return the nodes that pods of this kind can not go to, as far as that was seen."""
        known = self._kinds.get(kind)
        if known is None:
            return ()
        often = min(known.looks, 2)
        return tuple(sorted(name for name, n in known.missed.items() if n >= often and name not in known.accepted))


def _has_room(free: dict[str, int], requests: Resources) -> bool:
    return free.get(PODS, 1) > 0 and all(free.get(name, 0) >= amount for name, amount in requests)


def _add(free: dict[str, int], requests: Resources, sign: int) -> None:
    for name, amount in requests:
        free[name] = free.get(name, 0) + sign * amount
    if PODS in free:
        free[PODS] += sign
