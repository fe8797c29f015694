"""One node: what is free of it, and which pods have which of its GPUs.

A pod whose binding names its GPUs has these. A pod that was bound by somebody else gets GPUs here: a whole one those
with the lowest free indexes, a part the fullest GPU with enough left; such pods are counted in the order of their UIDs
after all others, so that the result does not depend on the order in which pods are reported.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from algorithm.fgd.needs import WHOLE, Need
from algorithm.model import CPU, MEMORY, PODS, Node, lookup

#: GPUs of one node that are told apart.
MOST_GPUS = 1000


class Taken(NamedTuple):
    """What one pod takes; `named` are the GPUs that its binding names, None if none does."""

    need: Need
    named: tuple[int, ...] | None


class Room(NamedTuple):
    """What a node has: thousandths of a core, bytes, pods, GPUs, and the model of these."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0
    gpus: int = 0
    model: str = ""


#: What a node has that is not known.
_NOTHING = Room()


def _room_of(node: Node, resource: str, model_label: str) -> Room:
    """Read what the node has, before anything changes: what raises changes nothing."""
    amounts = dict(node.allocatable)
    gpus = min(amounts.get(resource, 0), MOST_GPUS)
    model = lookup(node.labels, model_label) or ""
    return Room(amounts.get(CPU, 0), amounts.get(MEMORY, 0), amounts.get(PODS, 0), gpus, model)


class Devices:
    """The room of one node. It may be unknown (`node` None) while pods on it are known."""

    __slots__ = ("_room", "_taken", "cpu", "free", "memory", "model", "name", "node", "pods", "tags")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self._room = _NOTHING
        self.model = ""
        self._taken: dict[str, Taken] = {}
        #: What is left: thousandths of a core, bytes, pods, thousandths of each GPU. Never below 0 for a GPU.
        self.cpu = self.memory = self.pods = 0
        self.free: tuple[int, ...] = ()
        #: How many pods of each kind there are: "shared", "1-gpu", "2-gpu" and so on.
        self.tags: Counter[str] = Counter()

    def copy(self) -> Devices:
        twin = Devices(self.name)
        twin.node, twin._room, twin.model, twin._taken = self.node, self._room, self.model, dict(self._taken)
        twin.cpu, twin.memory, twin.pods, twin.free = self.cpu, self.memory, self.pods, self.free
        twin.tags = Counter(self.tags)
        return twin

    @property
    def is_forgotten(self) -> bool:
        """Whether there is neither a node of this name nor a pod on it."""
        return self.node is None and not self._taken

    @property
    def taken(self) -> dict[str, Taken]:
        """What its pods take, by UID. Not to be changed."""
        return self._taken

    @property
    def gpu_milli(self) -> int:
        """Thousandths of all its GPUs."""
        return WHOLE * len(self.free)

    def set_node(self, node: Node | None, resource: str, model_label: str) -> None:
        room = _NOTHING if node is None else _room_of(node, resource, model_label)
        self.node, self._room, self.model = node, room, room.model
        self.cpu, self.memory, self.pods = room.cpu, room.memory, room.pods
        self.free = (WHOLE,) * room.gpus
        self.tags = Counter()
        for uid in self._in_order():
            self._count(self._taken[uid])

    def add(self, uid: str, taken: Taken) -> None:
        others_are_named = all(each.named is not None for each in self._taken.values())
        self._taken[uid] = taken
        if others_are_named:
            self._count(taken)
        else:
            self._count_again()

    def remove(self, uid: str) -> None:
        """Free what the pod takes, if it is here."""
        if self._taken.pop(uid, None) is not None:
            self._count_again()

    def _count_again(self) -> None:
        self.cpu, self.memory, self.pods = self._room.cpu, self._room.memory, self._room.pods
        self.free = (WHOLE,) * len(self.free)
        self.tags = Counter()
        for uid in self._in_order():
            self._count(self._taken[uid])

    def _in_order(self) -> list[str]:
        return sorted(self._taken, key=lambda uid: (self._taken[uid].named is None, uid))

    def _count(self, taken: Taken) -> None:
        need = taken.need
        self.cpu -= need.cpu
        self.memory -= need.memory
        self.pods -= 1
        if need.gpus:
            self.tags[tag(need)] += 1
            where = taken.named if taken.named is not None else found_free(need, self.free) or ()
            self.free = after(self.free, where, need.milli)


def tag(need: Need) -> str:
    """The kind of a pod with GPUs."""
    return "shared" if need.is_shared else f"{need.gpus}-gpu"


def after(free: tuple[int, ...], where: tuple[int, ...], milli: int) -> tuple[int, ...]:
    """What is left of each GPU once `milli` of those at `where` are taken. Indexes that do not exist are left out."""
    left = list(free)
    for index in where:
        if index < len(left):
            left[index] = max(0, left[index] - milli)
    return tuple(left)


def found_free(need: Need, free: tuple[int, ...]) -> tuple[int, ...] | None:
    """The GPUs for a pod by the rule of all policies but two: the fullest GPU that suffices for a part of one, the
    lowest indexes for whole ones. None if there are too few."""
    if not need.gpus:
        return ()
    if need.is_shared:
        fit = [(left, index) for index, left in enumerate(free) if left >= need.milli]
        return (min(fit)[1],) if fit else None
    whole = [index for index, left in enumerate(free) if left >= WHOLE]
    return tuple(whole[: need.gpus]) if len(whole) >= need.gpus else None
