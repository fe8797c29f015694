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

import msgspec

from algorithm.hived.formats.allocation import Allocation
from algorithm.hived.formats.bindinfo import LONGEST
from algorithm.hived.state.groups import Group

#: Written with a binding, as JSON: `[{"group": .., "by": .., "pods": [uids]}]`.
LAZILY_PREEMPTED = "waggle.dev/hived-lazily-preempted"
#: Characters of a UID of Kubernetes. What is kept of each takes 350 bytes, so shorter ones would multiply their text in
#: memory a hundred times; up to so many are believed whatever their length.
_UID, _FEW = 36, 64


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


def write(lost: Iterable[QuotaLoss]) -> tuple[tuple[str, str], ...]:
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


class LazyPreemptionLog:
    """What allocated pods say, by who says it."""

    def __init__(self) -> None:
        self._said: dict[str, Sequence[QuotaLoss]] = {}
        self._by: dict[tuple[str, str], dict[str, str]] = {}
        #: By pod that was placed anew: who had said before that its group lost its quota.
        self._outdated: dict[str, set[str]] = {}

    def add(self, uid: str, group: str, lost: Sequence[QuotaLoss], *, found: bool) -> None:
        """`found`: it was bound when it was first seen. Else what it says is newer than all that others say."""
        if not found:
            for outdated in self._outdated.values():
                outdated.discard(uid)
        taken = [each for each in lost if each.by]
        if taken:
            self._said[uid] = taken
        for each in taken:
            for pod in each.pods:
                self._by.setdefault((each.group, pod), {})[uid] = each.by
        before = {other for each in lost if not each.by and each.group == group for other in each.pods}
        if before:
            self._outdated[uid] = before - {uid}

    def drop(self, uid: str) -> None:
        self._outdated.pop(uid, None)
        for each in self._said.pop(uid, ()):
            for pod in each.pods:
                said = self._by.get((each.group, pod), {})
                said.pop(uid, None)
                if not said:  # perhaps since before: anybody may have written it there twice
                    self._by.pop((each.group, pod), None)

    def who_say_so(self, group: str, pod: str) -> dict[str, str]:
        """By pods that say it: the group that took the quota of this pod's group."""
        outdated = self._outdated.get(pod, ())
        return {uid: by for uid, by in self._by.get((group, pod), {}).items() if uid not in outdated}

    def who_took(self, group: str, pods: Iterable[str]) -> str:
        """One of these groups, for any of these pods of the group; empty if nobody says so."""
        return min((by for pod in pods for by in self.who_say_so(group, pod).values()), default="")

    def is_of(self, uid: str, group: Group) -> bool:
        """Whether what this pod says is about the very group: not about a later one of the same name, or no more."""
        return any(uid in self.who_say_so(group.name, member.uid) for member in group.members())


def is_without_quota(allocation: Allocation) -> bool:
    """Whether what is written on a pod promises it nothing."""
    return not any(type_ for _, places in allocation.places for place in places for type_ in place.types)
