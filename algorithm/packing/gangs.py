"""Gangs: pods that are useful only together. Their members, which of these have a place, and their plans.

    (no member allocated)  -- plan made and taken: first add_allocated_pod -->  (placed: seats are held)
            ^                                                                          |
            +------------------- last allocated member is deleted ---------------------+

A gang is declared on its pods:

    waggle.dev/gang: NAME          the group, within the namespace
    waggle.dev/gang-min: "8"       this many members must have a place at once

or by Kubernetes' own `spec.schedulingGroup.podGroupName`. The pods do not carry the minimum of a PodGroup, so without
`waggle.dev/gang-min` it counts as 1. The members of a gang of minimum 1 are placed one by one: the gang is only a name.

Every member that has a place carries the plan of its gang in the annotation `waggle.dev/gang-plan`:

    {"generation":1,"seats":{"<pod uid>":"<node name>"}}

The holds depend on the records alone. The newest plan among the allocated members counts (highest generation, then
UID), and the seats of known, waiting members are held. So a restart in any order, an expired lease, and a replaced
member all lead to the same holds, without special code for any of them.

A pod's author chooses the size of a gang and its annotations. So there are bounds. A gang that is placed as a whole has
at most MOST_MEMBERS pods, and at most MOST_SIZES different requests among the waiting ones. Adding or removing a member
costs the same however many others there are. Only the last few plans are kept in parsed form.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from algorithm.interface import PodRefused
from algorithm.model import Pairs, Pod, Resources, lookup
from algorithm.reasons import Code, reason
from algorithm.tables import Followers, Table

GANG = "waggle.dev/gang"
GANG_MIN = "waggle.dev/gang-min"
GANG_PLAN = "waggle.dev/gang-plan"

#: Pods of a gang that is placed as a whole. Each of them carries the plan, so the size in etcd grows with the square:
#: 60 kB on each of 1,000 pods. And no other call is answered while places are searched: on 2,000 nodes this takes up to
#: 25 ms for 1,000 equal pods, 60 ms for 16 different requests, and 100 ms if others have to be evicted.
MOST_MEMBERS = 1000
#: Different requests among the waiting members: the cost of placing them grows with this number.
MOST_SIZES = 16
#: As for any name in Kubernetes.
LONGEST_NAME = 253
_SHOWN = 40
#: Characters of a declaration that is kept in parsed form: a longer one cannot be right.
_LONGEST_KEPT = LONGEST_NAME + 10
_MOST_GENERATIONS = 2**31
_GENERATION = re.compile(r'\s*\{\s*"generation"\s*:\s*([0-9]{1,10})\s*,', re.ASCII)


class GangKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Membership(NamedTuple):
    """What one pod declares: its gang, and how many members must have a place at once."""

    gang: GangKey
    minimum: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes of the members of a gang, by UID, including members that are already placed."""

    generation: int = 0
    seats: Mapping[str, str] = field(default_factory=dict)
    #: The text that was read. An unchanged plan is written again as it was.
    text: str = field(default="", compare=False)

    def with_seats(self, seats: Mapping[str, str], members: Container[str]) -> Plan:
        """This plan with these seats; of the others it keeps those of `members`. Itself if nothing changes."""
        if all(self.seats.get(uid) == node for uid, node in seats.items()):
            return self
        kept = {uid: node for uid, node in self.seats.items() if uid in members}
        return Plan(self.generation + 1, {**kept, **seats})

    def annotations(self) -> Pairs:
        if self.text:
            return ((GANG_PLAN, self.text),)
        content = {"generation": self.generation, "seats": dict(sorted(self.seats.items()))}
        return ((GANG_PLAN, json.dumps(content, separators=(",", ":"))),)


def membership(pod: Pod) -> Membership | None:
    """What the pod declares, None if it is in no gang. Raises PodRefused (GangInvalid) naming the annotation."""
    if not pod.annotations and not pod.group:  # most pods
        return None
    name = minimum = None
    for key, value in pod.annotations:
        if key == GANG:
            name = value
        elif key == GANG_MIN:
            minimum = value
    if name is None and minimum is None and not pod.group:
        return None
    if len(name or "") + len(minimum or "") > _LONGEST_KEPT:
        return _declared.__wrapped__(pod.namespace, pod.group, name, minimum)
    return _declared(pod.namespace, pod.group, name, minimum)


# Asked several times for each call of kube-scheduler, and of every member of a gang. Refusals are not kept.
@lru_cache(maxsize=1024)
def _declared(namespace: str, group: str, name: str | None, minimum: str | None) -> Membership | None:
    if name is None and not group:
        raise _invalid(GangKey(namespace, ""), f"annotation {GANG_MIN} needs annotation {GANG} with a name")
    gang = GangKey(namespace, group if name is None else name)
    if not is_name(gang.name):
        gang = GangKey(namespace, ascii(gang.name[:_SHOWN])[1:-1])
        raise _invalid(gang, f"annotation {GANG} must be a name of 1 to {LONGEST_NAME} plain characters")
    if minimum is None:
        if name is None:
            return Membership(gang, 1)
        raise _invalid(gang, f"annotation {GANG_MIN} is missing; it must be a positive integer")
    if not _positive(minimum):
        raise _invalid(gang, f"annotation {GANG_MIN} must be a positive integer, not {minimum[:40]!r}")
    if int(minimum) > MOST_MEMBERS:
        raise _invalid(gang, f"annotation {GANG_MIN} must be at most {MOST_MEMBERS}, not {minimum}")
    return Membership(gang, int(minimum))


def membership_or_none(pod: Pod) -> Membership | None:
    """What the pod declares, None if it is in no gang or declares its gang wrongly."""
    try:
        return membership(pod)
    except PodRefused:
        return None


def _positive(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0


def _invalid(gang: GangKey, detail: str) -> PodRefused:
    return PodRefused(reason(Code.GANG_INVALID, gang=str(gang), detail=detail))


def too_large(gang: Gang) -> PodRefused:
    """The refusal of a gang that has too many pods, or too many different ones, to be placed as a whole."""
    if len(gang.minimums) > MOST_MEMBERS:
        return _invalid(gang.key, f"it has more than {MOST_MEMBERS} pods")
    return _invalid(gang.key, f"its pods have more than {MOST_SIZES} different requests")


@lru_cache(maxsize=16)
def plan_text(annotations: Pairs) -> str:
    """The plan that is written there, "" if there is none. It is read once, before anything changes."""
    return lookup(annotations, GANG_PLAN) or ""


def _generation(pod: Pod) -> int | None:
    """The generation of the plan that an allocated pod carries, without parsing the plan; None if it has none."""
    found = _GENERATION.match(plan_text(pod.annotations))
    return int(found[1]) if found and int(found[1]) < _MOST_GENERATIONS else None


@lru_cache(maxsize=16)
def read_plan(text: str) -> Plan:
    """The plan in this text; an empty plan if it cannot be read. Equal texts are parsed once."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return Plan()
    if not isinstance(content, dict):
        return Plan()
    generation, seats = content.get("generation"), content.get("seats")
    if type(generation) is not int or not 0 <= generation < _MOST_GENERATIONS or not isinstance(seats, dict):
        return Plan()
    return Plan(generation, {uid: node for uid, node in seats.items() if is_name(uid) and is_name(node)}, text)


def is_name(text: object) -> bool:
    """Whether the text can be a UID or the name of an object. Anyone may have written the annotation."""
    return isinstance(text, str) and 0 < len(text) <= LONGEST_NAME and text.isascii() and text.isprintable()


#: The fields of a waiting member that a decision reads.
Fingerprint = tuple[object, ...]


def fingerprint_of(pod: Pod, minimum: int) -> Fingerprint:
    """The fields that decisions read: they treat two records with the same fingerprint alike."""
    return pod.requests, pod.priority, pod.may_preempt, pod.created, pod.namespace, pod.name, minimum


class Gang:
    """One gang: its waiting and its allocated members by UID, and the plans that the allocated ones carry."""

    __slots__ = (
        "_carriers",
        "_counts",
        "_fingerprints",
        "_sizes",
        "allocated",
        "key",
        "minimum",
        "minimums",
        "plan_text",
        "waiting",
    )

    def __init__(self, key: GangKey) -> None:
        self.key = key
        self.waiting: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        #: The minimum that each member declares. They should agree; the highest counts.
        self.minimums: dict[str, int] = {}
        self.minimum = 1
        self._counts: Counter[int] = Counter()
        #: Waiting members by their requests.
        self._sizes: Counter[Resources] = Counter()
        #: The generations of the plans of allocated members, by UID, and the text of the newest, "" if there is none.
        self._carriers: dict[str, int] = {}
        self.plan_text = ""
        self._fingerprints: dict[str, Fingerprint] | None = None

    @property
    def plan(self) -> Plan:
        """The newest plan among the allocated members; empty if there are none."""
        return read_plan(self.plan_text) if self.plan_text else Plan()

    @property
    def whole(self) -> bool:
        """Whether it is placed as a whole, by a plan. Members of a gang of minimum 1 are placed one by one."""
        return self.minimum > 1

    @property
    def oversized(self) -> bool:
        """Whether it has more pods, or more different waiting ones, than can be planned for."""
        return self.whole and (len(self.minimums) > MOST_MEMBERS or len(self._sizes) > MOST_SIZES)

    def alone_asks_for_most(self, uid: str) -> bool:
        """Whether the gang's minimum would be lower without this member."""
        return self.minimums[uid] == self.minimum and self._counts[self.minimum] == 1

    def seats(self) -> dict[str, str]:
        """The seats of the waiting members that have one: node names by UID."""
        planned = self.plan.seats
        return {uid: planned[uid] for uid in self.waiting if uid in planned} if planned else {}

    def fingerprints(self) -> Mapping[str, Fingerprint]:
        """The fingerprints of the waiting members, by UID. A returned mapping never changes."""
        if self._fingerprints is None:
            self._fingerprints = {uid: fingerprint_of(pod, self.minimums[uid]) for uid, pod in self.waiting.items()}
        return self._fingerprints

    def add(self, pod: Pod, minimum: int) -> None:
        self._fingerprints = None
        self.minimums[pod.uid] = minimum
        self._counts[minimum] += 1
        self.minimum = max(self.minimum, minimum)
        if not pod.node_name:
            self.waiting[pod.uid] = pod
            self._sizes[pod.requests] += 1
            return
        self.allocated[pod.uid] = pod
        generation = _generation(pod)
        if generation is not None:
            self._carriers[pod.uid] = generation
            self._find_plan()

    def remove(self, pod: Pod) -> None:
        self._fingerprints = None
        if not pod.node_name:
            self.leave(pod.uid)
            return
        self.allocated.pop(pod.uid)
        self._forget_minimum(pod.uid)
        if self._carriers.pop(pod.uid, None) is not None:
            self._find_plan()

    def leave(self, uid: str) -> None:
        """Remove the pod if it is a waiting member."""
        if (pod := self.waiting.pop(uid, None)) is not None:
            self._fingerprints = None
            self._forget_minimum(uid)
            self._sizes[pod.requests] -= 1
            if not self._sizes[pod.requests]:
                del self._sizes[pod.requests]

    def _forget_minimum(self, uid: str) -> None:
        minimum = self.minimums.pop(uid)
        self._counts[minimum] -= 1
        if not self._counts[minimum]:
            del self._counts[minimum]
            if minimum == self.minimum:
                self.minimum = max(self._counts, default=1)

    def _find_plan(self) -> None:
        newest = max(self._carriers.items(), key=lambda carrier: (carrier[1], carrier[0]), default=None)
        self.plan_text = "" if newest is None else plan_text(self.allocated[newest[0]].annotations)

    def copy(self) -> Gang:
        twin = Gang(self.key)
        twin.waiting, twin.allocated = self.waiting.copy(), self.allocated.copy()
        twin.minimums, twin.minimum, twin._counts = self.minimums.copy(), self.minimum, self._counts.copy()
        twin._carriers, twin.plan_text, twin._sizes = self._carriers.copy(), self.plan_text, self._sizes.copy()
        return twin


class GangIndex:
    """All gangs that have a member, and the gang of each pod."""

    def __init__(self) -> None:
        self.gangs: Table[GangKey, Gang] = Table()
        self._of: Table[str, GangKey] = Table()
        #: The gangs that have changed since a copy in pieces began (`copying.py`); None: there is none.
        self.watch: set[GangKey] | None = None

    def changed(self, gang: Gang) -> None:
        """Note that the gang has changed."""
        if self.watch is not None:
            self.watch.add(gang.key)

    def add(self, pod: Pod, declared: Membership) -> Gang:
        """Add the record of a pod, which declares this, and return its gang. A pod with a node counts as allocated,
        else as waiting."""
        gang = self.gangs.get(declared.gang)
        if gang is None:
            gang = self.gangs[declared.gang] = Gang(declared.gang)
        gang.add(pod, declared.minimum)
        self._of[pod.uid] = declared.gang
        self.changed(gang)
        return gang

    def remove(self, pod: Pod) -> Gang | None:
        """Remove the record that `add` was given, and return its gang, which may be empty now."""
        key = self._of.pop(pod.uid, None)
        if key is None:
            return None
        gang = self.gangs[key]
        gang.remove(pod)
        self.changed(gang)
        if not gang.minimums:
            del self.gangs[key]
        return gang

    def of(self, uid: str) -> Gang | None:
        """The gang of a known pod."""
        key = self._of.get(uid)
        return None if key is None else self.gangs[key]

    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All that may be large."""
        return self.gangs, self._of

    def taken(self, followers: Followers) -> GangIndex:
        """A copy that still refers to the gangs of this one."""
        twin = GangIndex()
        twin.gangs, twin._of = followers.taken(self.gangs), followers.taken(self._of)
        return twin

    def validate(self, waiting: Iterable[Pod], allocated: Iterable[Pod]) -> None:
        """Compare the book with one derived from the records. Raises AssertionError."""
        fresh = GangIndex()
        for pod in (*waiting, *allocated):
            if (declared := membership_or_none(pod)) is not None:
                fresh.add(pod, declared)
        assert fresh._of == self._of, "gang membership differs from the pods"
        assert fresh.gangs.keys() == self.gangs.keys(), "gangs differ from the pods"
        for key, gang in self.gangs.items():
            other = fresh.gangs[key]
            assert (gang.waiting, gang.allocated) == (other.waiting, other.allocated), f"members of gang {key} differ"
            assert gang._sizes == other._sizes, f"sizes of gang {key} differ"
            assert (gang.minimums, gang.plan) == (other.minimums, other.plan), f"plan of gang {key} differs"
