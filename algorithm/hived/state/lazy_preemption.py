"""Records which groups go on without their quota, for a restart.

A group that is preempted lazily was bound long before, so its own pods do not say what it lost. Therefore every
guaranteed pod that is bound while groups of its chain lack their quota names these groups and their pods. A pod that
was bound earlier had its quota beside them; a pod that is bound later names them. After a restart they do not get back
what other groups were given since, in whatever order pods are found. When all pods that name them are gone, no other
group needs what they had.

Groups that lost their quota to a changed configuration are named as well, although they did not agree to go on without
it. After a restart they get it back only if no other group has to give up quota for it (see `accounts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from algorithm.hived.formats.allocation import Allocation
from algorithm.hived.formats.bindinfo import LONGEST
from algorithm.hived.state.groups import Group
from algorithm.model import Pairs, Pod

#: Written with a binding, as JSON: `[{"group": .., "by": .., "pods": [uids]}]`.
LAZILY_PREEMPTED = "waggle.dev/hived-lazily-preempted"
#: Characters of a UID of Kubernetes. What is kept of each takes 350 bytes, so shorter ones would multiply their text in
#: memory a hundred times; up to so many are believed whatever their length.
_UID, _FEW = 36, 64


#: Written beside it where groups are promoted: the number of the pod that says so.
ORDER = "waggle.dev/hived-order"
_LONGEST_NUMBER = 15


class QuotaLoss(msgspec.Struct, frozen=True):
    """A group without its quota: who took it, and the group's pods at that time.

    On one of those pods itself, and with nobody as the taker: it was placed anew since, with quota. `pods` are then
    itself and those that had said otherwise before.
    """

    group: str
    by: str
    pods: tuple[str, ...]

    def joined_by(self, uid: str) -> QuotaLoss:
        """The same with one more pod of the group."""
        return QuotaLoss(self.group, self.by, tuple(sorted({*self.pods, uid})))


def lost_by(group: Group, preemptor: str) -> QuotaLoss:
    return QuotaLoss(group.name, preemptor, tuple(sorted(member.uid for member in group.members())))


def write(lost: Iterable[QuotaLoss]) -> Pairs:
    """The annotation, if there is anything to say."""
    entries = sorted(lost, key=lambda each: each.group)
    return ((LAZILY_PREEMPTED, msgspec.json.encode(entries).decode()),) if entries else ()


def read(text: str | None) -> Sequence[QuotaLoss]:
    """Anyone may have written it: an unreadable text says nothing, nor do hundreds of names that are no UIDs."""
    if not text or len(text) > LONGEST:
        return ()
    try:
        found = msgspec.json.decode(text, type=tuple[QuotaLoss, ...])
    except msgspec.MsgspecError:
        return ()
    pods = sum(len(each.pods) for each in found)
    return found if pods <= _FEW or pods * _UID <= len(text) else ()


class QuotaRecord(NamedTuple):
    """The record on a pod: the groups without quota when it was bound, and its number; 0 if there were none."""

    lost: Sequence[QuotaLoss]
    number: int = 0


def record_of(pod: Pod) -> QuotaRecord:
    """What makes no sense counts for nothing. Without a number it was early."""
    lost = read(pod.annotation(LAZILY_PREEMPTED))
    text = pod.annotation(ORDER) or ""
    known = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    return QuotaRecord(lost, int(text) if known else min(1, len(lost)))


class LazyPreemptionLog:
    """What the annotations of allocated pods say about lost quota, by the pod that says it.

    Two rules read it. As long as a group does not get quota back, each statement counts that was not outdated by a new
    placement of the named pod: `taker`. Where groups are promoted, the latest statement counts: `latest_taker`.
    """

    def __init__(self) -> None:
        self._records: dict[str, Sequence[QuotaLoss]] = {}
        self._numbers: dict[str, int] = {}
        #: By group and one of its pods: the pods that name it, each with the group that took the quota.
        self._named: dict[tuple[str, str], dict[str, str]] = {}
        #: By pod that was placed anew: who had said before that its group lost its quota.
        self._outdated: dict[str, set[str]] = {}

    def add(self, uid: str, group: str, record: QuotaRecord, *, found: bool) -> None:
        """`found`: it was bound when it was first seen. Else what it says is newer than all that others say."""
        if not found:
            for outdated in self._outdated.values():
                outdated.discard(uid)
        if record.number:
            self._numbers[uid] = record.number
        taken = [each for each in record.lost if each.by]
        if taken:
            self._records[uid] = taken
        for each in taken:
            for pod in each.pods:
                self._named.setdefault((each.group, pod), {})[uid] = each.by
        before = {other for each in record.lost if not each.by and each.group == group for other in each.pods}
        if before:
            self._outdated[uid] = before - {uid}

    def drop(self, uid: str) -> None:
        """The pod has ended: it says nothing any more."""
        self._outdated.pop(uid, None)
        self._numbers.pop(uid, None)
        for each in self._records.pop(uid, ()):
            for pod in each.pods:
                named = self._named.get((each.group, pod), {})
                named.pop(uid, None)
                if not named:  # maybe removed before: anyone may have written it there twice
                    self._named.pop((each.group, pod), None)

    # -- without promotion ----------------------------------------------------------------------------------------

    def takers(self, group: str, pod: str) -> dict[str, str]:
        """By pods that say it: the group that took the quota of this pod's group."""
        outdated = self._outdated.get(pod, ())
        return {uid: by for uid, by in self._named.get((group, pod), {}).items() if uid not in outdated}

    def taker(self, group: str, pods: Iterable[str]) -> str:
        """One of these groups, for any of these pods of the group; empty if nobody says so."""
        return min((by for pod in pods for by in self.takers(group, pod).values()), default="")

    def is_of(self, uid: str, group: Group) -> bool:
        """Whether what this pod says is about the very group: not about a later one of the same name, or no more."""
        return any(uid in self.takers(group.name, member.uid) for member in group.members())

    def to_write(self, uid: str, group: str, lost: Iterable[QuotaLoss]) -> Pairs:
        """The annotation of this pod of the group, which is placed now: others lost their quota, and it has its own."""
        before = self.takers(group, uid)
        again = [QuotaLoss(group, "", (uid, *sorted(before)))] if before else []
        return write([*lost, *again])

    # -- with promotion -------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no pod names any group."""
        return not self._named

    def latest_taker(self, group: str, uids: Iterable[str]) -> str:
        """The group that has the quota of the group of these pods, as the latest pod says; "" if no pod names it."""
        namers = self.namers(group, uids)
        return namers[0][1] if namers else ""

    def namers(self, group: str, uids: Iterable[str]) -> list[tuple[int, str]]:
        """The pods that name the group, the latest first: the number of each, and the taker of the quota.

        A pod with a later number was bound with quota, whatever earlier pods say.
        """
        found = {
            namer: (self._numbers.get(namer, 0), by)
            for uid in uids
            for namer, by in self._named.get((group, uid), {}).items()
            if self._numbers.get(namer, 0) >= self._numbers.get(uid, 0)
        }
        return sorted(found.values(), reverse=True)

    def to_write_numbered(self, uid: str, group: str, lost: Sequence[QuotaLoss]) -> Pairs:
        """The annotations for this pod of the group, which is placed now. None while no group has lost its quota.

        A pod of a group without its quota names its own group as well.
        """
        if not lost and not self._numbers:
            return ()
        number = max(self._numbers.values(), default=0) + 1
        lost = [each if each.group != group else each.joined_by(uid) for each in lost]
        return (*write(lost), (ORDER, str(number)))


def is_without_quota(allocation: Allocation) -> bool:
    """Whether what is written on a pod promises it nothing."""
    return not any(type_ for _, places in allocation.places for place in places for type_ in place.types)
