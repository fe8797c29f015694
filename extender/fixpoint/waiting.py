"""Parked nodes, indexed by what they wait for: each is woken when its last unmet need is met.

    park(node, needs) --> asleep --> change(thing) for each thing that changes --> woken: [node, ...]

* A node with k needs is woken once, not k times: a change costs what waits for that thing, and no more.
* A need that fails wakes its node early, but only the first one: a body that waits on knows that it is to fail.
* Nothing is lost between looking and parking: needs are typed, so that `park` is only asked for needs that are unmet
  at that very moment (the caller holds the lock).
* For the verdicts it keeps at hand which nodes wait for absent things only, and which for a required absent one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from extender.fixpoint.records import Id, Need
from extender.fixpoint.things import ABSENT, FAILED, MET, PENDING, READY_WANTED, Answer, Node, Open, Thing, Things


class Waiting(Generic[Id]):
    """See the module docstring. `parked`, `waivable`, `lacking` and `failing` are for the verdicts: read them only."""

    def __init__(self, things: Things[Id]) -> None:
        self._things = things
        self.parked: dict[Id, Node[Id]] = {}
        #: All that they wait for is absent and optional.
        self.waivable: dict[Id, Node[Id]] = {}
        #: Something that they wait for is absent and required.
        self.lacking: dict[Id, Node[Id]] = {}
        #: Another of their needs has failed.
        self.failing: dict[Id, Node[Id]] = {}

    def park(self, node: Node[Id], needs: Iterable[Need[Id]]) -> None:
        """Park the node on these needs: at least one, all absent or pending."""
        for need in needs:
            if (opened := node.open.get(need.id)) is not None:
                opened.needs.append(need)
                continue
            thing = self._things.get(need.id)
            thing.waiters[node.id] = node
            node.open[need.id] = Open(need, not thing.exists)
        for opened in node.open.values():
            self._count(node, opened, 1)
        self.parked[node.id] = node
        self._classify(node)

    def unpark(self, node: Node[Id]) -> None:
        """Take the node out of all indexes."""
        for key in node.open:
            self._things.by_id[key].waiters.pop(node.id, None)
        node.open = {}
        node.lacking = node.pending = 0
        for index in (self.parked, self.waivable, self.lacking, self.failing):
            index.pop(node.id, None)

    def changed(self, thing: Thing[Id]) -> list[Node[Id]]:
        """The thing has changed: unpark the nodes that this wakes, and return them by id."""
        if not thing.waiters:
            return []
        ready = self._things.answer(Need(thing.id))
        waiters = [thing.waiters[key] for key in sorted(thing.waiters)]
        woken = [node for node in waiters if self._wakes(node, thing, ready)]
        for node in woken:
            self.unpark(node)
        return woken

    def _wakes(self, node: Node[Id], thing: Thing[Id], ready: Answer) -> bool:
        """Whether the change wakes the node; `ready`: how a need for the thing to be ready stands now."""
        opened = node.open[thing.id]
        failed = False
        settled = []
        for need in opened.needs:
            answer = ready if need.want is READY_WANTED else self._things.answer(need)
            if answer is MET or answer is FAILED:
                settled.append(need)
                failed = failed or answer is FAILED
        if settled or opened.absent is thing.exists:
            self._settle(node, thing, settled)
        return not node.open or (failed and self._tell(node, thing.id))

    def _settle(self, node: Node[Id], thing: Thing[Id], settled: list[Need[Id]]) -> None:
        """These needs are open no more, or the thing has come or gone."""
        opened = node.open[thing.id]
        self._count(node, opened, -1)
        was_absent, opened.absent = opened.absent, not thing.exists
        if len(settled) == len(opened.needs):
            del node.open[thing.id], thing.waiters[node.id]
        else:
            opened.needs = [need for need in opened.needs if need not in settled]
            self._count(node, opened, 1)
        if node.open and (was_absent or not node.pending or opened.absent):
            self._classify(node)

    def _tell(self, node: Node[Id], failed: Id) -> bool:
        """A need has failed while others are open. True if the body does not know of any failed need yet."""
        node.failing = (*node.failing, failed)
        self._classify(node)
        early, node.told = not node.told, True
        return early

    def forget_recovered(self) -> None:
        """Look again at the needs that had failed when their nodes parked, or since: some may be met by now."""
        for node in list(self.failing.values()):
            node.failing = tuple(key for key in node.failing if self._things.answer_of(node, key) is FAILED)
            self._classify(node)

    def _count(self, node: Node[Id], opened: Open[Id], by: int) -> None:
        if not opened.absent:
            node.pending += by
        elif opened.required():
            node.lacking += by

    def _classify(self, node: Node[Id]) -> None:
        _keep(self.lacking, node, node.lacking > 0)
        _keep(self.failing, node, bool(node.failing))
        _keep(self.waivable, node, not (node.lacking or node.pending or node.failing))

    def validate(self) -> None:
        """Derive the indexes again. Raises AssertionError that names the difference."""
        for key, node in self.parked.items():
            assert node.id == key, f"{key} is filed as {node.id}"
            assert node.open, f"{key} is parked on nothing"
            for needed, opened in node.open.items():
                thing = self._things.by_id[needed]
                assert thing.waiters.get(key) is node, f"{key} is not among the waiters of {needed}"
                assert opened.absent is not thing.exists, f"{key} has missed that {needed} came or went"
                for need in opened.needs:
                    answer = self._things.answer(need)
                    assert answer in (ABSENT, PENDING), f"{key} sleeps on {need}, which is {answer}"
            lacking = sum(opened.absent and opened.required() for opened in node.open.values())
            pending = sum(not opened.absent for opened in node.open.values())
            assert (node.lacking, node.pending) == (lacking, pending), f"{key} has counted wrongly"
            waivable = not (lacking or pending or node.failing)
            assert (key in self.waivable, key in self.lacking) == (waivable, lacking > 0), f"{key} is filed wrongly"
        for thing in self._things.by_id.values():
            for key, node in thing.waiters.items():
                assert self.parked.get(key) is node, f"{key} waits for {thing.id}, but is not parked"
                assert thing.id in node.open, f"{key} no longer waits for {thing.id}"


def _keep(index: dict[Id, Node[Id]], node: Node[Id], kept: bool) -> None:
    if kept:
        index[node.id] = node
    elif node.id in index:
        del index[node.id]
