"""A cache of verdicts: the same question in the same state has the same answer.

After every cluster event kube-scheduler asks about all rejected pods again, the members of a gang one after the other.
The first call pays for the search; equal mates, and other pods like it, get the same answer.

Only refusals are kept (Wait, Preempt): they do not name the asking pod, except a plan in the phase EVICTING, which
names its mates. A question has everything that an answer may depend on, except

* the state, which is identified by its generation: a new generation empties the cache;
* the waiting members of the pod's gang, compared by their fingerprints;
* the offered nodes, compared as sets: kube-scheduler rotates their order.

A test shows that the cache cannot be observed: a fork starts with an empty cache and must answer the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from algorithm.interface import Phase, Preempt, SuggestedNodes, Wait
from algorithm.packing.demand import Demand
from algorithm.packing.gangs import Fingerprint, Gang, GangKey
from algorithm.packing.nodes import Hold
from algorithm.packing.plan import Member

#: The most cached verdicts. One with reasons for 5,000 nodes takes a third of a megabyte.
REMEMBERED = 64

Fingerprints = Mapping[str, Fingerprint]


class Question(NamedTuple):
    """The key of a verdict. `uid` is empty unless something is held, or evicted, for this pod itself, or the verdict is
    a plan for this pod and its mates."""

    phase: Phase
    demand: Demand
    priority: int
    may_preempt: bool
    gang: GangKey | None
    uid: str


class GangMembers:
    """The waiting members of gangs, made once for as long as a gang stays as it is."""

    def __init__(self) -> None:
        self._made: dict[GangKey, tuple[Fingerprints, Sequence[Member]]] = {}

    def of(self, gang: Gang, holds: Mapping[str, Hold]) -> Sequence[Member]:
        """The members with what is held for them."""
        if holds and not holds.keys().isdisjoint(gang.waiting):
            return [Member(pod, holds.get(uid)) for uid, pod in gang.waiting.items()]
        fingerprints = gang.fingerprints()
        made = self._made.pop(gang.key, None)
        if made is None or made[0] is not fingerprints:
            made = fingerprints, [Member(pod) for pod in gang.waiting.values()]
            if len(self._made) >= REMEMBERED:
                del self._made[next(iter(self._made))]
        self._made[gang.key] = made
        return made[1]


class _Verdict(NamedTuple):
    fingerprints: Fingerprints | None
    offered: frozenset[str]
    answer: Preempt | Wait


class Memo:
    """The last verdicts, all of one generation of the state."""

    def __init__(self) -> None:
        #: The generation of the state that the verdicts are of: in no other one is there anything to recall.
        self.generation = -1
        # The number of nodes is part of the key: a trial of one node does not replace the verdict about all.
        self._verdicts: dict[tuple[Question, int], _Verdict] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def recall(
        self, question: Question, fingerprints: Fingerprints | None, offered: SuggestedNodes
    ) -> Preempt | Wait | None:
        """The cached answer to this question, else None. Compares the names only if there is such a verdict.

        The state is of `generation`.
        """
        known = self._verdicts.get((question, len(offered)))
        if known is None or known.fingerprints != fingerprints or not offered.are(known.offered):
            return None
        return known.answer

    def keep(
        self,
        generation: int,
        question: Question,
        fingerprints: Fingerprints | None,
        offered: SuggestedNodes,
        answer: Preempt | Wait,
    ) -> Preempt | Wait:
        """Cache and return the answer to a question that `recall` did not know; drops the oldest verdict if full."""
        if generation != self.generation:
            self._verdicts.clear()
            self.generation = generation
        key = question, len(offered)
        self._verdicts.pop(key, None)
        if len(self._verdicts) >= REMEMBERED:
            del self._verdicts[next(iter(self._verdicts))]
        latest = next(reversed(self._verdicts.values()), None)
        if latest is not None:
            offered.are(latest.offered)  # then thousands of names are kept once
        self._verdicts[key] = _Verdict(fingerprints, offered.as_set(), answer)
        return answer
