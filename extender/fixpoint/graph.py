"""The state machine of nodes: what arrives, what runs again, and why.

                arrive, seed                       start
    (unknown) ----------------> QUEUED ------------------------> RUNNING
                                ^   ^                            |     |
      all needs met, one failed |   | ENDED: its own content,    |     | Done
      early, a verdict, its own |   | a failed need recovered,   |     v
      content                   |   +-- a met need was lost, --- | --- ENDED
                                |       a sweep                  |
                              PARKED <---------------------------+
                                               Blocked
    gone: from any state back to unknown; a running body is waited for, and its outcome dropped.

Promises:

* A node runs once at a time. What happens to it while it runs is not lost: it runs again, once.
* A dispatch that could repeat for ever is charged to the node, with its cause: its own content changed, a failed need
  recovered, a met need was lost, a sweep of it brought news. Dispatches because of needs are free: each of them needs
  a change of another id.
* Content with an equal digest, and a status that is the same, change nothing (early cut-off).

The caller holds the lock of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic

from extender.fixpoint.ends import Ends
from extender.fixpoint.records import Blocked, Done, Id, Limits, Need, Outcome, Status, Verdict
from extender.fixpoint.runqueue import RunQueue
from extender.fixpoint.things import (
    ABSENT,
    ENDED,
    FAILED,
    MET,
    PARKED,
    PENDING,
    QUEUED,
    RUNNING,
    Cycle,
    Node,
    Thing,
    Things,
    retired,
)
from extender.fixpoint.waiting import Waiting

_IS_PENDING, _IS_READY, _HAS_FAILED = Status.PENDING, Status.READY, Status.FAILED


class Graph(Generic[Id]):
    """See the module docstring."""

    def __init__(self, limits: Limits, order: Callable[[Id], Any] | None = None) -> None:
        self.limits = limits
        self.things: Things[Id] = Things()
        self.waiting = Waiting(self.things)
        self.queue: RunQueue[Id] = RunQueue(order)
        self._ends = Ends(self.things, limits)
        #: How many arrivals and deletions there were, and how many dispatches.
        self.arrivals = 0
        self.dispatches = 0
        #: How many nodes there are.
        self._nodes = 0
        #: How many arrivals no node was named for.
        self._anonymous = 0
        self._sweepers: dict[Id, Node[Id]] = {}
        #: Whether something that was met may have been lost since `look_again`.
        self._has_lost = False
        #: The error that ends the run: a node that was charged too often. "": none.
        self.diverged = ""
        #: Coroutines that no longer count; the engine closes them when it does not hold the lock.
        self.abandoned: list[Coroutine[Any, Any, Any]] = []

    # -- news ----------------------------------------------------------------------------------------------------

    def seed(self, ids: Iterable[Id]) -> bool:
        """Register the unknown ones as nodes, in order of ids. False if there are none."""
        before = self.arrivals
        for key in sorted(set(ids)):
            thing = self.things.get(key)
            if thing.node is None:
                self._appear(thing, None)
                self._add_node(thing)
                self._tell(thing)
        return self.arrivals > before

    def arrive(self, key: Id, digest: Any = None, runnable: bool = True, by: Node[Id] | None = None) -> bool:
        """The id has arrived, or its content has changed. False if that is no news."""
        thing = self.things.get(key)
        if by is not None:
            thing.emitters.add(by.id)
        becomes_node = runnable and thing.node is None
        if thing.exists and not becomes_node and digest is not None and digest == thing.digest:
            return False
        cause = _difference(thing.digest, digest)
        self._appear(thing, digest, by)
        if becomes_node:
            self._add_node(thing)
        elif thing.node is not None:
            self._content_changed(thing.node, cause)
        self._tell(thing)
        return True

    def status(self, key: Id, status: Status) -> bool:
        """The id, which exists, has this status now. False if that is no news. PENDING wakes no node."""
        thing = self.things.get(key)
        before = thing.status
        if thing.exists and before is status:
            return False
        if not thing.exists:
            self._appear(thing, None)
        self._set_status(thing, status)
        return True

    def gone(self, key: Id) -> bool:
        """The id does not exist any more. False if that is no news. Ended nodes that relied on it are run again."""
        thing = self.things.by_id.get(key)
        if thing is None or not thing.exists:
            return False
        self.things.change(thing)
        self.arrivals += 1
        thing.exists, thing.status, thing.digest = False, None, None
        if thing.node is not None:
            self._remove_node(thing, thing.node)
        self._wake(thing)
        self._has_lost = True
        self._lost(thing, f"{key} is gone")
        return True

    def _appear(self, thing: Thing[Id], digest: Any, by: Node[Id] | None = None) -> None:
        self.things.change(thing)
        self.arrivals += 1
        if by is not None:
            by.seen += 1
            by.brought_news = True
        else:
            self._anonymous += 1
        thing.exists, thing.digest = True, digest
        thing.content += 1

    def _tell(self, thing: Thing[Id]) -> None:
        self._wake(thing)
        self._recover(thing)

    def _set_status(self, thing: Thing[Id], status: Status) -> None:
        self._has_lost = self._has_lost or (status is _HAS_FAILED and thing.status is not _IS_PENDING)
        thing.status = status
        self.things.change(thing)
        if status is not _IS_PENDING:
            self._tell(thing)
        if status is _HAS_FAILED:
            self._lost(thing, f"{thing.id} has failed")

    # -- nodes that run again ------------------------------------------------------------------------------------

    def _add_node(self, thing: Thing[Id]) -> None:
        if thing.node is None:
            thing.node, thing.status = Node(thing.id), _IS_PENDING
            thing.node.earlier = thing.dispatches
            self._nodes += 1
            if self._nodes > self.limits.nodes and not self.diverged:
                most = self.limits.nodes
                self.diverged = f"there are {self._nodes} nodes, and {most} are allowed; the last one is {thing.id}"
            self._enqueue(thing.node, "new")

    def _remove_node(self, thing: Thing[Id], node: Node[Id]) -> None:
        node.gone = True
        if node.state is RUNNING:
            return
        self.waiting.unpark(node)
        self._ends.withdraw(node)
        self._sweepers.pop(node.id, None)
        self.abandon(node)
        thing.node = None
        thing.dispatches += node.dispatches
        self._nodes -= 1

    def _content_changed(self, node: Node[Id], cause: str) -> None:
        node.restart, node.gone = True, False
        if node.state is QUEUED:
            node.charge = node.charge or (cause if node.runs else "")
        else:
            self._again(node, cause)

    def _again(self, node: Node[Id], cause: str) -> None:
        """Run the node again, and charge it."""
        node.charge = cause
        if node.state is RUNNING:
            node.again = cause
        elif node.state is PARKED:
            self._unpark(node, None)
            self._enqueue(node, cause)
        elif node.state is ENDED:
            self._ends.withdraw(node)
            self._enqueue(node, cause)

    def _enqueue(self, node: Node[Id], cause: str) -> None:
        node.state, node.cause = QUEUED, cause
        self.queue.push(node)

    def _wake(self, thing: Thing[Id]) -> None:
        for node in self.waiting.changed(thing):
            self._ends.waited(node, self.dispatches, thing.id)
            self._enqueue(node, "need")

    def _unpark(self, node: Node[Id], by: Id | None) -> None:
        self.waiting.unpark(node)
        self._ends.waited(node, self.dispatches, by)

    def _recover(self, thing: Thing[Id]) -> None:
        for node in self._ends.recovered(thing):
            node.verdicts = {key: each for key, each in node.verdicts.items() if each is Verdict.WAIVED}
            self._again(node, f"{thing.id} has recovered")

    def _lost(self, thing: Thing[Id], cause: str) -> None:
        """Run the ended nodes again that relied on the thing, and those that relied on these: none of them counts as
        ready meanwhile, so that no other node goes on because of what may not last."""
        stack = [thing]
        while stack:
            each = stack.pop()
            self.things.lost_at = self.things.generation
            for node in self._ends.lost(each):
                self._again(node, cause)
                own = self.things.get(node.id)
                if own.status is _IS_READY:
                    own.status = _IS_PENDING
                    self.things.change(own)
                    self._has_lost = True
                    stack.append(own)

    # -- runs ----------------------------------------------------------------------------------------------------

    def start(self, node: Node[Id]) -> bool:
        """QUEUED to RUNNING. False if the node was charged or dispatched once too often: the run has diverged."""
        if (node.charge and not self._charge(node)) or not self._may_go_on(node):
            return False
        node.charge = node.again = ""
        node.state = RUNNING
        node.dispatches += 1
        self.dispatches += 1
        node.started, node.seen, node.anonymous = self.things.generation, self.arrivals, self._anonymous
        node.brought_news = False
        if node.restart:
            node.restart = False
            node.forget_needs()
            node.told = False
            self.abandon(node)
        node.fresh = node.coroutine is None
        if node.fresh:
            node.began = node.started
        return True

    def abandon(self, node: Node[Id]) -> None:
        """Let go of its suspended body."""
        coroutine, node.coroutine = node.coroutine, None
        if coroutine is not None:
            self.abandoned.append(coroutine)

    def _charge(self, node: Node[Id]) -> bool:
        node.charges += 1
        if node.charges <= self.limits.redispatches:
            return True
        self.diverged = self.diverged or (
            f"{node.id} does not come to rest: it was to be run again {node.charges} times, "
            f"and {self.limits.redispatches} times are allowed; the last cause: {node.charge}"
        )
        self._diverge(node)
        return False

    def _may_go_on(self, node: Node[Id]) -> bool:
        """Whether the node was dispatched less often than the limits allow."""
        most = self.limits.dispatches
        if node.earlier + node.dispatches < most:
            return True
        text = f"{node.id} does not come to rest: it was dispatched {most} times, and no more are allowed; "
        self.diverged = self.diverged or f"{text}the last cause: {_cause_of(node)}"
        self._diverge(node)
        return False

    def _diverge(self, node: Node[Id]) -> None:
        self._ends.diverge(node, self.diverged)
        self.things.get(node.id).status = _HAS_FAILED

    def complete(self, node: Node[Id], outcome: Outcome[Id]) -> None:
        """RUNNING to PARKED or ENDED, or back to QUEUED if something happened meanwhile."""
        thing = self.things.get(node.id)
        if not self._pays_for_sweep(node):
            return
        if node.gone:
            node.state = ENDED
            self._remove_node(thing, node)
        elif node.again:
            self._enqueue(node, node.again)
        elif isinstance(outcome, Blocked):
            self._block(node, outcome.needs)
        else:
            self._end(thing, node, outcome)

    def _pays_for_sweep(self, node: Node[Id]) -> bool:
        """Charge a sweep that brought news: it may cause another one. False if that was once too often."""
        swept, node.swept = node.swept, False
        if not swept or not (node.brought_news or self._anonymous > node.anonymous):
            return True
        charge, node.charge = node.charge, "a sweep of it brought news"
        paid = self._charge(node)
        node.charge = charge
        return paid

    def _block(self, node: Node[Id], needs: tuple[Need[Id], ...]) -> None:
        """Park the node on what is open; run it again if nothing is, which is a fault if nothing has changed."""
        if node.all_open is not None and node.all_open[0] == self.things.generation and node.all_open[1] is needs:
            node.failing = ()
            self._park(node, needs)
            return
        node.declare(needs)
        answers = {need: self.things.answer(need) for need in needs if not retired(node, need)}
        opened = [need for need, answer in answers.items() if answer in (ABSENT, PENDING)]
        failed = sorted({need.id for need, answer in answers.items() if answer is FAILED})
        node.failing = tuple(failed)
        news = any(self.things.get(key).changed > node.started for key in failed)
        node.told = node.told or bool(failed)
        if opened and not news:
            self._park(node, opened)
        elif fault := self._ends.stuck(node, needs):
            self._end(self.things.get(node.id), node, fault)
        else:
            self._enqueue(node, "a need changed while it ran")

    def _park(self, node: Node[Id], opened: Sequence[Need[Id]]) -> None:
        node.state, node.observed, node.retries = PARKED, None, 0
        node.parked_at, node.parked_on = self.dispatches, tuple([need.id for need in opened])
        if (thing := self.things.get(node.id)).status is _IS_READY:
            thing.status = _IS_PENDING
        self.waiting.park(node, opened)

    def _end(self, thing: Thing[Id], node: Node[Id], done: Done[Id]) -> None:
        if cause := self._ends.overtaken(node, done):
            node.charge = cause
            node.verdicts = {key: each for key, each in node.verdicts.items() if each is Verdict.WAIVED}
            self._enqueue(node, cause)
            return
        node.state, node.sweep = ENDED, done.sweep
        self._ends.record(node, done)
        if done.sweep:
            self._sweepers[node.id] = node
        else:
            self._sweepers.pop(node.id, None)
        if done.status is not _IS_PENDING and thing.status is not done.status:
            self._set_status(thing, done.status)

    # -- at rest -------------------------------------------------------------------------------------------------

    def sweep(self) -> bool:
        """Queue the ended nodes that select their inputs, if anything has arrived since; whether there were any."""
        due = [node for _, node in sorted(self._sweepers.items()) if self.arrivals > node.seen]
        for node in due:
            self._ends.withdraw(node)
            node.swept = True
            self._enqueue(node, "sweep")
        return bool(due)

    def look_again(self) -> bool:
        """Queue the parked nodes of which a need was met when they looked, and is lost; whether there were any."""
        if not self._has_lost:
            return False
        self._has_lost = False
        found = [node for _, node in sorted(self.waiting.parked.items()) if self._lost_while_parked(node)]
        for node in found:
            self._unpark(node, None)
            self._enqueue(node, "a met need was lost")
        return bool(found)

    def _lost_while_parked(self, node: Node[Id]) -> bool:
        known = {*node.open, *node.failing}
        needs = (need for need in node.needs if need.id not in known and not retired(node, need))
        return any(self.things.answer(need) is not MET for need in needs)

    def give(self, node: Node[Id], verdicts: Mapping[Id, Verdict], cycle: Cycle[Id] | None = None) -> None:
        """PARKED to QUEUED, with verdicts on its needs."""
        node.verdicts.update(verdicts)
        node.cycle = cycle or node.cycle
        self._unpark(node, None)
        self._enqueue(node, "verdict")

    def validate(self) -> None:
        """Derive the indexes again. Raises AssertionError that names the difference."""
        self.waiting.validate()
        self._ends.validate()
        for node in self.things.nodes():
            parked = node.id in self.waiting.parked
            assert parked is (node.state is PARKED), f"{node.id} is {node.state}, parked: {parked}"


def _cause_of(node: Node[Any]) -> str:
    """Return why the node is queued, for people."""
    if node.cause == "need" and node.waits:
        return f"{node.waits[-1].woken_by}, for which it waited, has changed"
    return {"verdict": "a verdict", "new": "it was reported as a new node"}.get(node.cause, node.cause)


def _difference(before: Any, after: Any) -> str:
    """Return what has changed, for the cause of a charge: the fields that differ, if digests are mappings."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = sorted(str(key) for key in {*before, *after} if before.get(key) != after.get(key))
        return f"its content changed (fields: {', '.join(keys[:10])})"
    return "its content changed"
