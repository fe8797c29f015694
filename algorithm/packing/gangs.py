"""Gangs: pods that are of use only together. Who belongs to which, who has a place, and what their plan says.

    (no member allocated)  -- plan made and taken: first add_allocated_pod -->  (placed: seats are held)
            ^                                                                          |
            +------------------- last allocated member is deleted ---------------------+

A gang is declared on its pods:

    waggle.dev/gang: NAME          the group, within the namespace
    waggle.dev/gang-min: "8"       so many members have to have a place at once

or by Kubernetes' own `spec.schedulingGroup.podGroupName`; a PodGroup's minimum is not written on its pods, so without
`waggle.dev/gang-min` it counts as 1. A gang of minimum 1 is placed seat by seat: it is a name and nothing more.

The plan of a placed gang stands in the annotation `waggle.dev/gang-plan` of every member that has a place:

    {"generation":1,"seats":{"<pod uid>":"<node name>"}}

What is held is a function of the records alone: of the newest plan among the allocated members (highest generation,
then UID), the seats of those members that are known and wait. So a restart in any order, a lease that expires, and a
member that is replaced all come to the same holds without a line of code for any of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from algorithm.interface import PodRefused
from algorithm.model import Pairs, Pod
from algorithm.reasons import Code, reason

GANG = "waggle.dev/gang"
GANG_MIN = "waggle.dev/gang-min"
GANG_PLAN = "waggle.dev/gang-plan"

#: As for any name in Kubernetes.
_LONGEST_NAME = 253
_SHOWN = 40
_MOST_GENERATIONS = 2**31


class GangKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Membership(NamedTuple):
    """What one pod declares: its gang, and how many members have to have a place at once."""

    gang: GangKey
    minimum: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the members of a gang go, by UID; those that are there already included."""

    generation: int = 0
    seats: Mapping[str, str] = field(default_factory=dict)

    def with_seats(self, seats: Mapping[str, str]) -> Plan:
        """This plan, changed to these seats; itself if they are in it."""
        if all(self.seats.get(uid) == node for uid, node in seats.items()):
            return self
        return Plan(self.generation + 1, {**self.seats, **seats})

    def annotations(self) -> Pairs:
        content = {"generation": self.generation, "seats": dict(sorted(self.seats.items()))}
        return ((GANG_PLAN, json.dumps(content, separators=(",", ":"))),)


def membership(pod: Pod) -> Membership | None:
    """What the pod declares, None if it is in no gang. Raises PodRefused (GangInvalid) naming the annotation."""
    name, minimum = pod.annotation(GANG), pod.annotation(GANG_MIN)
    if name is None and not pod.group:
        if minimum is not None:
            raise _invalid(GangKey(pod.namespace, ""), f"annotation {GANG_MIN} needs annotation {GANG} with a name")
        return None
    gang = GangKey(pod.namespace, pod.group if name is None else name)
    if not _is_name(gang.name):
        gang = GangKey(pod.namespace, ascii(gang.name[:_SHOWN])[1:-1])
        raise _invalid(gang, f"annotation {GANG} must be a name of 1 to {_LONGEST_NAME} plain characters")
    if minimum is None:
        if name is None:
            return Membership(gang, 1)
        raise _invalid(gang, f"annotation {GANG_MIN} is missing; it must be a positive integer")
    if not _positive(minimum):
        raise _invalid(gang, f"annotation {GANG_MIN} must be a positive integer, not {minimum[:40]!r}")
    return Membership(gang, int(minimum))


def membership_or_none(pod: Pod) -> Membership | None:
    """The same for records of what is: a pod that declares its gang wrongly is in none."""
    try:
        return membership(pod)
    except PodRefused:
        return None


def _positive(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0


def _invalid(gang: GangKey, detail: str) -> PodRefused:
    return PodRefused(reason(Code.GANG_INVALID, gang=str(gang), detail=detail))


def read_plan(pod: Pod) -> Plan:
    """The plan that an allocated pod carries; an empty one if it carries none or none that can be read."""
    text = pod.annotation(GANG_PLAN)
    if text is None:
        return Plan()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return Plan()
    if not isinstance(content, dict):
        return Plan()
    generation, seats = content.get("generation"), content.get("seats")
    if type(generation) is not int or not 0 <= generation < _MOST_GENERATIONS or not isinstance(seats, dict):
        return Plan()
    return Plan(generation, {uid: node for uid, node in seats.items() if _is_name(uid) and _is_name(node)})


def _is_name(text: object) -> bool:
    """Anybody can write an annotation: only what may be a UID or the name of an object is taken from it."""
    return isinstance(text, str) and 0 < len(text) <= _LONGEST_NAME and text.isascii() and text.isprintable()


#: What a decision reads of a waiting member.
Face = tuple[object, ...]


def face_of(pod: Pod, minimum: int) -> Face:
    """Records of one pod that have the same face are the same to every decision."""
    return pod.requests, pod.priority, pod.created, pod.namespace, pod.name, minimum


class Gang:
    """One gang: its members by UID, waiting and allocated, and the plans that the latter carry."""

    __slots__ = ("_faces", "_plans", "allocated", "key", "minimums", "waiting")

    def __init__(self, key: GangKey) -> None:
        self.key = key
        self.waiting: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        #: What each member declares; they should agree, the highest counts.
        self.minimums: dict[str, int] = {}
        self._plans: dict[str, Plan] = {}
        self._faces: dict[str, Face] | None = None

    @property
    def minimum(self) -> int:
        return max(self.minimums.values(), default=1)

    @property
    def intact(self) -> bool:
        """Enough members have a place for the gang to be of use."""
        return len(self.allocated) >= self.minimum

    @property
    def plan(self) -> Plan:
        """The newest plan among the allocated members; empty if there are none."""
        newest = max(self._plans, key=lambda uid: (self._plans[uid].generation, uid), default=None)
        return Plan() if newest is None else self._plans[newest]

    def seats(self) -> dict[str, str]:
        """The nodes of those that wait and have a seat, by UID."""
        planned = self.plan.seats
        return {uid: planned[uid] for uid in self.waiting if uid in planned} if planned else {}

    def faces(self) -> Mapping[str, Face]:
        """All that a decision reads of the waiting members, by UID. Not changed any more once it is given out."""
        if self._faces is None:
            self._faces = {uid: face_of(pod, self.minimums[uid]) for uid, pod in self.waiting.items()}
        return self._faces

    def add(self, pod: Pod, minimum: int) -> None:
        self._faces = None
        self.minimums[pod.uid] = minimum
        if not pod.node_name:
            self.waiting[pod.uid] = pod
            return
        self.allocated[pod.uid] = pod
        plan = read_plan(pod)
        if plan.seats:
            self._plans[pod.uid] = plan

    def remove(self, pod: Pod) -> None:
        self._faces = None
        (self.allocated if pod.node_name else self.waiting).pop(pod.uid)
        self._plans.pop(pod.uid, None) if pod.node_name else None
        del self.minimums[pod.uid]

    def copy(self) -> Gang:
        twin = Gang(self.key)
        twin.waiting, twin.allocated = self.waiting.copy(), self.allocated.copy()
        twin.minimums, twin._plans = self.minimums.copy(), self._plans.copy()
        return twin


class GangBook:
    """All gangs that have a member, and which pod is in which."""

    def __init__(self) -> None:
        self.gangs: dict[GangKey, Gang] = {}
        self._of: dict[str, GangKey] = {}

    def add(self, pod: Pod) -> Gang | None:
        """Takes the pod's record in; returns its gang. With a node it counts as allocated, else as waiting."""
        declared = membership_or_none(pod)
        if declared is None:
            return None
        gang = self.gangs.get(declared.gang)
        if gang is None:
            gang = self.gangs[declared.gang] = Gang(declared.gang)
        gang.add(pod, declared.minimum)
        self._of[pod.uid] = declared.gang
        return gang

    def remove(self, pod: Pod) -> Gang | None:
        """Takes out the record that `add` was given; returns the gang it was in, which may be empty now."""
        key = self._of.pop(pod.uid, None)
        if key is None:
            return None
        gang = self.gangs[key]
        gang.remove(pod)
        if not gang.minimums:
            del self.gangs[key]
        return gang

    def of(self, uid: str) -> Gang | None:
        """The gang of a known pod."""
        key = self._of.get(uid)
        return None if key is None else self.gangs[key]

    def copy(self) -> GangBook:
        twin = GangBook()
        twin.gangs = {key: gang.copy() for key, gang in self.gangs.items()}
        twin._of = self._of.copy()
        return twin

    def validate(self, waiting: Iterable[Pod], allocated: Iterable[Pod]) -> None:
        """Derives the book from the records. Raises AssertionError."""
        fresh = GangBook()
        for pod in (*waiting, *allocated):
            fresh.add(pod)
        assert fresh._of == self._of, "gang membership differs from the pods"
        assert fresh.gangs.keys() == self.gangs.keys(), "gangs differ from the pods"
        for key, gang in self.gangs.items():
            other = fresh.gangs[key]
            assert (gang.waiting, gang.allocated) == (other.waiting, other.allocated), f"members of gang {key} differ"
            assert (gang.minimums, gang.plan) == (other.minimums, other.plan), f"plan of gang {key} differs"
