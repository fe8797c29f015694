"""Bounds the memory for decisions on pods, namespace by namespace, since anyone who may create pods can write
decisions.

Without an admission policy, anyone who creates pods with a node can write 250 KB of a decision on each. Every namespace
has a limit of its own, and what exceeds it is shortened on the namespace's own pods. So other namespaces are not
affected, and no namespace fills the memory for pods (room.py) with texts.

    decision of a pod that has a node, and has not ended
        up to SHORT characters -------------------------------------------> kept
        its text, or the part in common with its gang, is known already ---> kept, in memory once
        there is room in the namespace, and in all namespaces together ----> kept, and counted
        otherwise: a gang's text is shortened to the pod's own part, which names its devices; any other text is emptied
    decision of a pod that has ended: as if there were no room

A running pod never loses the record of the devices that it holds itself. If every pod of a gang is shortened and Waggle
restarts, the gang keeps no places for its pods that are still to come.

The cost of a text is an estimate of what it becomes when an algorithm reads it: its characters, and _PART bytes for
each line and comma. Only the informer of pods counts; other threads only look up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec
import structlog

from algorithm.decisions import GangText, in_parts, shortened, whole_name
from algorithm.model import Pod
from algorithm.reads import LONGEST_WISH

log = structlog.get_logger(__name__)

#: Characters of a text that is always kept.
SHORT = 2048
_PART = 64
#: Namespaces that are remembered as logged, and namespaces that are named in one message.
_MOST_LOGGED, _NAMED = 1000, 3


@dataclass(frozen=True, slots=True)
class DecisionRoom:
    """Limits in estimated bytes, asked for each time: gangs' texts and other texts of a namespace, and all texts
    together."""

    gangs: Callable[[], int]
    others: Callable[[], int]
    total: Callable[[], int]


@dataclass(slots=True)
class _Text:
    text: str
    cost: int
    of_gang: bool
    pods: int = 0


_Key = tuple[str, str]


class Decisions:
    """Shortens records of pods to fit the limits. `names`: the annotations; `gang_texts`: those that gang members share
    parts of."""

    def __init__(self, names: Collection[str], gang_texts: Mapping[str, GangText], room: DecisionRoom) -> None:
        self._names = frozenset(names)
        self._gang_texts = gang_texts
        self._room = room
        #: Texts by namespace and text; and the keys that each pod counts for, by UID.
        self._texts: dict[_Key, _Text] = {}
        self._pods: dict[str, tuple[_Key, ...]] = {}
        self._taken: Counter[tuple[str, bool]] = Counter()
        self._shortened: dict[str, str] = {}
        self._logged: dict[str, None] = {}
        #: Bytes of all texts that are kept, each counted once, estimated.
        self.weight = 0

    @property
    def shortened(self) -> int:
        """Number of pods whose decision is shortened now."""
        return len(self._shortened)

    def readiness_warning(self) -> str:
        """A message for people: which namespaces have pods with shortened decisions, "" if none."""
        if not self._shortened:
            return ""
        found = Counter(list(self._shortened.values()))
        named = ", ".join(f"{namespace} ({number})" for namespace, number in found.most_common(_NAMED))
        return f"decisions on pods are longer than there is room for in their namespace, and were shortened: {named}"

    def keep(self, pod: Pod) -> Pod:
        """Return the record to keep. It counts from now on until `forget`."""
        if not self._has_long(pod) or pod.finished:
            self.forget(pod.uid)
            return self.as_kept(pod)
        counted: list[_Key] = []
        kept, was_shortened = self._kept(pod, lambda key, of_gang: self._count(key, counted, of_gang=of_gang))
        before = self._pods.get(pod.uid, ())
        self._pods[pod.uid] = tuple(counted)
        self._drop(before)
        if was_shortened:
            self._shortened[pod.uid] = pod.namespace
            self._say(pod)
        else:
            self._shortened.pop(pod.uid, None)
        return kept

    def as_kept(self, pod: Pod) -> Pod:
        """Return the record as `keep` would if no further text could be counted. May be called from any thread."""
        if not self._has_long(pod):
            return pod
        return self._kept(pod, lambda key, _: None if pod.finished else self._texts.get(key))[0]

    def forget(self, uid: str) -> None:
        """Stop counting a pod: it is gone, or has no long decision."""
        self._shortened.pop(uid, None)
        self._drop(self._pods.pop(uid, ()))

    def forget_others(self, uids: Collection[str]) -> None:
        """Stop counting all pods but these: the others are gone."""
        for uid in [uid for uid in {**self._pods, **self._shortened} if uid not in uids]:
            self.forget(uid)

    def without_shared(self, pod: Pod) -> Pod:
        """Return the record without the texts that are shared in memory, for weighing: the same for equal records."""
        if not any(len(text) > SHORT for _, text in pod.annotations):
            return pod
        annotations = tuple((name, "" if self._is_shared(name, text) else text) for name, text in pod.annotations)
        return msgspec.structs.replace(pod, annotations=annotations)

    def _is_shared(self, name: str, text: str) -> bool:
        return len(text) > SHORT and name not in self._gang_texts and whole_name(name) in self._names

    # -- one pod --------------------------------------------------------------------------------------------------

    def _has_long(self, pod: Pod) -> bool:
        return any(len(text) > SHORT and name in self._names for name, text in pod.annotations)

    def _kept(self, pod: Pod, find: Callable[[_Key, bool], _Text | None]) -> tuple[Pod, bool]:
        """The record, and whether anything was shortened. `find` returns a text that may be kept."""
        annotations: dict[str, str] = {}
        was_shortened = False
        for name, text in pod.annotations:
            if name not in self._names or len(text) <= SHORT:
                annotations[name] = text
                continue
            parts = self._parts(pod.namespace, name, text, find)
            was_shortened = was_shortened or parts is None
            annotations |= parts if parts is not None else self._short(name, text)
        return msgspec.structs.replace(pod, annotations=tuple(sorted(annotations.items()))), was_shortened

    def _parts(
        self, namespace: str, name: str, text: str, find: Callable[[_Key, bool], _Text | None]
    ) -> dict[str, str] | None:
        """The annotations that stand for a text; None if there is no room for it."""
        gang = self._gang_texts.get(name)
        beginning, rest = gang.split(text) if gang is not None else ("", text)
        if not rest or len(beginning) > LONGEST_WISH:
            return None
        known = find((namespace, rest), gang is not None)
        if known is None:
            return None
        return in_parts(name, beginning, known.text) if gang is not None else {name: known.text}

    def _short(self, name: str, text: str) -> dict[str, str]:
        gang = self._gang_texts.get(name)
        return shortened(name, gang.own(text)) if gang is not None else {name: ""}

    # -- counting -------------------------------------------------------------------------------------------------

    def _count(self, key: _Key, counted: list[_Key], *, of_gang: bool) -> _Text | None:
        known = self._texts.get(key)
        if known is None:
            namespace, text = key
            cost = len(text) + _PART * (text.count("\n") + text.count(","))
            most = self._room.gangs() if of_gang else self._room.others()
            if self._taken[namespace, of_gang] + cost > most or self.weight + cost > self._room.total():
                return None
            known = self._texts[key] = _Text(text, cost, of_gang)
            self._taken[namespace, of_gang] += cost
            self.weight += cost
        known.pods += 1
        counted.append(key)
        return known

    def _drop(self, keys: Collection[_Key]) -> None:
        for key in keys:
            known = self._texts[key]
            known.pods -= 1
            if not known.pods:
                del self._texts[key]
                self._taken[key[0], known.of_gang] -= known.cost
                if not self._taken[key[0], known.of_gang]:
                    del self._taken[key[0], known.of_gang]
                self.weight -= known.cost

    def _say(self, pod: Pod) -> None:
        """Log the first shortened pod of each namespace."""
        if pod.namespace not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged[pod.namespace] = None
            log.warning(
                "decisions on pods are shortened: their namespace has more of them than there is room for",
                namespace=pod.namespace,
                first=pod.name,
                bytes=self._room.gangs(),
            )
