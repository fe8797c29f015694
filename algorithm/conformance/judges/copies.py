"""Judges of copies: equal to their original, and independent of it in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from algorithm.conformance.guard import Guarded
from algorithm.conformance.judge import Judge, PeriodicJudge, promise
from algorithm.conformance.judges.traces import changed_by, comparable
from algorithm.conformance.observation import asked, difference, observe
from algorithm.conformance.results import shown
from algorithm.interface import Bind, Phase
from algorithm.model import Node

#: Pieces of a copy that are taken.
_MOST_PIECES = 10_000


def disturbances(judge: Judge, of: Guarded) -> Iterator[None]:
    """Change everything, one thing after the other, of an algorithm that stands as the life does."""
    life = judge.life
    nodes, waiting, allocated = dict(life.nodes), dict(life.waiting), dict(life.allocated)
    for uid, pod in sorted(waiting.items()):
        answer = asked(of, pod, tuple(sorted(nodes)), Phase.FILTERING) if nodes else None
        if isinstance(answer, Bind):
            allocated[uid] = placed = pod.placed(answer.node, answer.annotations)
            of.add_allocated_pod(placed)
        else:
            if uid in life.preempting:
                of.delete_preempting_pod(pod)
            of.delete_unallocated_pod(pod)
        yield
    for _, pod in sorted(allocated.items()):
        of.delete_allocated_pod(pod)
        yield
    for name in sorted(nodes):
        new = msgspec.structs.replace(nodes[name], ready=not nodes[name].ready)
        of.update_node(nodes[name], new)
        yield
        of.delete_node(new)
        yield
    of.add_node(Node(name="node-of-a-copy", allocatable=(("cpu", 64_000), ("memory", 1 << 40), ("pods", 100))))
    yield


class ForkEqual(PeriodicJudge):
    name = "fork-equal"
    every = 4

    def look(self) -> None:
        was = observe(self.life)
        differs = difference(was, observe(self.life, self.life.algorithm.forked()))
        promise(
            not differs or bool(difference(was, observe(self.life))), f"a fork differs from its original. {differs}"
        )


class ForkIndependent(PeriodicJudge):
    name = "fork-independent"
    every = 7

    def look(self) -> None:
        changed = changed_by(self.life, lambda: list(disturbances(self, self.life.algorithm.forked())))
        promise(not changed, f"what a fork was told changed its original. {changed}")
        original = self.life.algorithm.twin()
        fork = original.forked()
        before = comparable(self.life, fork)
        for _ in disturbances(self, original):
            pass
        changed = difference(before, comparable(self.life, fork))
        promise(not changed, f"what the original was told changed its fork. {changed}")


class ForksCopyAMoment(PeriodicJudge):
    """Takes a copy in pieces, with changes in between."""

    name = "forks-copy-a-moment"
    every = 7

    def look(self) -> None:
        original = self.life.algorithm.twin()
        changes = disturbances(self, original)
        made: list[Callable[[], Any]] = []
        moment = None
        for piece in self._pieces(original):
            if piece is not None:
                promise(callable(piece), f"forks() yields {shown(piece)}, not None or a function")
                made.append(piece)
                moment = comparable(self.life, original)
            next(changes, None)
        promise(len(made) == 1, f"forks() yields {len(made)} functions, not one")
        assert moment is not None
        copy = original.beside(self.life.guard.call("forks", made[0]))
        differs = difference(moment, comparable(self.life, copy))
        promise(
            not differs, f"a copy of forks() is not the algorithm as it was when the function was yielded. {differs}"
        )

    def _pieces(self, original: Guarded) -> Iterator[Any]:
        pieces = iter(original.forks())
        for _ in range(_MOST_PIECES):
            try:
                yield self.life.guard.call("forks", next, pieces)
            except StopIteration:
                return
        promise(False, f"forks() has more than {_MOST_PIECES} pieces")
