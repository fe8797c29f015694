"""Verdicts that were reached already: the same question in the same state has the same answer.

After every cluster event kube-scheduler asks about all rejected pods again, the members of a gang one after the other.
The first one asked pays for the search; its mates of the same kind, and other pods like it, are told the same.

Only refusals are kept (Wait, Preempt): they do not name the asking pod. A question holds all that an answer may
depend on, other than

* the state, which is told by its generation: with a new one everything is forgotten;
* the waiting members of the pod's gang, compared by their faces;
* the offered nodes, compared as sets: kube-scheduler rotates their order.

That nobody can observe this is tested: a fork starts with an empty memory and has to answer the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from algorithm.interface import Phase, Preempt, SuggestedNodes, Wait
from algorithm.packing.demand import Demand
from algorithm.packing.gangs import Face, GangKey

#: Verdicts that are remembered. One that speaks of 5,000 nodes takes a third of a megabyte.
REMEMBERED = 64

Faces = Mapping[str, Face]


class Question(NamedTuple):
    """Who asks for what. `uid` is empty unless something is held, or evicted, for this very pod."""

    phase: Phase
    demand: Demand
    priority: int
    may_preempt: bool
    gang: GangKey | None
    uid: str


class _Verdict(NamedTuple):
    faces: Faces | None
    offered: frozenset[str]
    answer: Preempt | Wait


class Memo:
    """The last verdicts, all of one generation of the state."""

    def __init__(self) -> None:
        self._generation = -1
        # By the number of nodes, too: a trial of one node does not push out the verdict about all.
        self._verdicts: dict[tuple[Question, int], _Verdict] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def recall(
        self, generation: int, question: Question, faces: Faces | None, offered: SuggestedNodes
    ) -> Preempt | Wait | None:
        """The answer to this question, if it is known. Looks at the names only if there is a verdict to compare."""
        if generation != self._generation:
            self._verdicts.clear()
            self._generation = generation
        known = self._verdicts.get((question, len(offered)))
        if known is None or known.faces != faces or known.offered != offered.as_set():
            return None
        return known.answer

    def keep(
        self, question: Question, faces: Faces | None, offered: SuggestedNodes, answer: Preempt | Wait
    ) -> Preempt | Wait:
        """Remembers the answer to a question that `recall` did not know; the oldest verdict makes way."""
        key = question, len(offered)
        self._verdicts.pop(key, None)
        if len(self._verdicts) >= REMEMBERED:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = _Verdict(faces, self._shared(offered.as_set()), answer)
        return answer

    def _shared(self, offered: frozenset[str]) -> frozenset[str]:
        """An equal set that is remembered already: thousands of names are kept once."""
        latest = next(reversed(self._verdicts.values()), None)
        return latest.offered if latest is not None and latest.offered == offered else offered
