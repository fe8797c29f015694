"""The order in which claims with the same key were written, as this server's watch shows it.

    replica 1: PATCH pod a, claim A, key k: version 10 --+      the watch of every replica:
    replica 2: PATCH pod b, claim B, key k: version 12 --+----> ... 10: A stands ... 12: B stands, after A ...

etcd puts all writes of pods in one order, and a watch delivers them in it. So a replica that has received its own write
from its watch has received every earlier write of the others, and all replicas see the same order. A claim *stands*
from its first pod's mark until it has no pod any more. Of the claims with one key that stand, the one that has stood
for longest has the key: a claim is answered only once its server has seen that no other has stood for longer. An
answered claim is ahead of all later ones as long as it stands, so no two are answered.

A list is a gap: of claims that appear in it, the order is unknown. They have the same place, after all that stood
before and before all that come, and none of them is first while there are several.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from extender.claims.records import PoolKey, WarmPod

#: A key belongs to a tenant of a pool.
Key = tuple[PoolKey, str, str]


class Verdict(StrEnum):
    """What the watch has shown of a claim and its key."""

    #: Not all of its pods, or a list is being delivered.
    UNSEEN = "unseen"
    #: Nobody has stood for longer.
    FIRST = "first"
    #: Another claim has, or may have.
    LATER = "later"


@dataclass(slots=True)
class _Standing:
    """A claim that stands. `since`: the place at which it began to; `uids`: its pods with theirs."""

    key: Key
    since: int
    uids: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Gap:
    """A list that is being delivered: its place, and the claims that have got pods in it."""

    place: int
    claims: dict[str, None] = field(default_factory=dict)


class KeyOrder:
    """See the module. It is told what watches and lists say, and nothing else: answers to writes come out of order.
    `changed`: keys whose claims have changed; the owner empties it."""

    def __init__(self, changed: dict[Key, None]) -> None:
        self._changed = changed
        self._standing: dict[str, _Standing] = {}
        self._of_pod: dict[str, str] = {}
        self._by_key: dict[Key, dict[str, None]] = {}
        #: By namespace.
        self._gaps: dict[str, _Gap] = {}
        self._place = 0

    def seen(self, pod: WarmPod, *, is_listed: bool) -> None:
        """A watch, or a list, shows a pod."""
        if is_listed and pod.namespace not in self._gaps:
            self._gaps[pod.namespace] = _Gap(self._next_place())
        mark = pod.mark
        after = mark.claim if mark is not None and mark.key and not pod.is_terminating else ""
        before = self._of_pod.get(pod.uid, "")
        if before == after:
            return
        if before:
            self._leave(pod.uid, before)
        if after and mark is not None:
            self._join(pod, after, (PoolKey(pod.namespace, mark.pool), mark.tenant, mark.key))

    def gone(self, uid: str) -> None:
        """The pod is deleted."""
        before = self._of_pod.get(uid)
        if before is not None:
            self._leave(uid, before)

    def listed(self, namespace: str) -> None:
        """All changes of a list were told."""
        gap = self._gaps.pop(namespace, None)
        if gap is None:
            return
        for name in gap.claims:
            standing = self._standing.get(name)
            if standing is not None and min(standing.uids.values()) >= gap.place:
                standing.since = gap.place  # it may have stood before, and not for a while
        self._changed.update(dict.fromkeys(key for key in self._by_key if key[0].namespace == namespace))

    def _next_place(self) -> int:
        self._place += 1
        return self._place

    def _join(self, pod: WarmPod, name: str, key: Key) -> None:
        standing = self._standing.get(name)
        if standing is not None and standing.key[0].namespace != pod.namespace:
            return  # a forgery: a claim has pods of one namespace
        gap = self._gaps.get(pod.namespace)
        place = self._next_place() if gap is None else gap.place
        if standing is None:
            standing = self._standing[name] = _Standing(key, place)
            self._by_key.setdefault(key, {})[name] = None
        if gap is not None:
            gap.claims[name] = None
        standing.uids[pod.uid] = place
        self._of_pod[pod.uid] = name
        self._changed[standing.key] = None

    def _leave(self, uid: str, name: str) -> None:
        del self._of_pod[uid]
        standing = self._standing[name]
        del standing.uids[uid]
        self._changed[standing.key] = None
        if standing.uids:
            return
        del self._standing[name]
        names = self._by_key[standing.key]
        del names[name]
        if not names:
            del self._by_key[standing.key]

    # -- questions ------------------------------------------------------------------------------------------------

    def verdict(self, claim: str, uids: Collection[str]) -> Verdict:
        """Return what is known of a claim of this server that has these pods."""
        standing = self._standing.get(claim)
        if standing is None or self._is_in_gap(standing.key):
            return Verdict.UNSEEN
        others = (self._standing[name] for name in self._by_key[standing.key] if name != claim)
        if any(other.since <= standing.since for other in others):
            return Verdict.LATER
        return Verdict.FIRST if all(uid in standing.uids for uid in uids) else Verdict.UNSEEN

    def names(self, key: Key) -> Collection[str]:
        """The claims with this key that stand."""
        return self._by_key.get(key, {}).keys()

    def first(self, key: Key) -> str:
        """Return the claim that has the key; "" if there is none, or it is not known which of several."""
        names = self._by_key.get(key)
        if not names or self._is_in_gap(key):
            return ""
        since = min(self._standing[name].since for name in names)
        first = [name for name in names if self._standing[name].since == since]
        return first[0] if len(first) == 1 else ""

    def _is_in_gap(self, key: Key) -> bool:
        return key[0].namespace in self._gaps

    def validate(self) -> None:
        """Derive every index again. Raises AssertionError that names the difference."""
        pods = {uid: name for name, standing in self._standing.items() for uid in standing.uids}
        assert pods == self._of_pod, f"standing {pods}, by pod {self._of_pod}"
        names = {name: standing.key for name, standing in self._standing.items()}
        by_key = {name: key for key, found in self._by_key.items() for name in found}
        assert names == by_key, f"standing {names}, by key {by_key}"
        for name, standing in self._standing.items():
            assert standing.uids, f"{name} stands on nothing"
            assert standing.since <= min(standing.uids.values()), f"{name}: {standing}"
