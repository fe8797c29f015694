"""The engine's predecessor, with drain levels instead of verdicts, for comparison. Use `Engine` for everything else.

    queue empty, nothing runs --> nobody parked: re-run what selects its inputs if anything has arrived, else the end
                              --> some node parked: level + 1, and all parked nodes run once more; after FORCE the end

It behaves as its description says, weak points included: the level never falls, any one blocker wakes a node, data that
arrives between a look and the end of the body is missed until the drain, and a body that always names a blocker which
has already ended runs for ever, unless the run is cancelled. Two things differ: waiters are woken in order of ids, and
a body that raises ends its node, and the run raises its exception when all bodies have ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from functools import partial
from typing import Any, Generic

import msgspec

from extender.fixpoint.executor import Executor, Inline
from extender.fixpoint.records import Id


class Level(IntEnum):
    """How a body is to judge what it waits for. It only rises."""

    #: Block on whatever is absent or pending.
    NONE = 0
    #: What is absent now never comes: fail, or accept it if the node may go on without.
    CASCADE = 1
    #: What is pending now never becomes ready: fail.
    FORCE = 2


class BlockedOn(msgspec.Struct, Generic[Id], frozen=True):
    """The node waits for any one of these ids."""

    ids: tuple[Id, ...]


#: Called with an id and the level when it was dispatched. Returns None if the node has ended.
LevelBody = Callable[[Id, Level], BlockedOn[Id] | None]


class LevelReport(msgspec.Struct, Generic[Id], frozen=True, kw_only=True):
    """What happened. `runs`: by id, sorted. `forced`: the nodes that were still parked at the end."""

    level: Level
    dispatches: int
    runs: tuple[tuple[Id, int], ...]
    forced: tuple[Id, ...] = ()
    cancelled: bool = False


class _State(Enum):
    RUNNABLE = "runnable"
    RUNNING = "running"
    PARKED = "parked"
    TERMINAL = "terminal"


class _Node(Generic[Id]):
    __slots__ = ("again", "blockers", "key", "rerun_at_drain", "runs", "state")

    def __init__(self, key: Id) -> None:
        self.key = key
        self.state = _State.RUNNABLE
        self.again = False
        self.rerun_at_drain = False
        self.blockers: tuple[Id, ...] = ()
        self.runs = 0


class LevelEngine(Generic[Id]):
    """See the module docstring."""

    def __init__(self, body: LevelBody[Id], *, executor: Executor | None = None) -> None:
        self._body = body
        self._executor = executor or Inline()
        self._rerun_at_drain: Callable[[Id], bool] = lambda _: False
        self._nodes: dict[Id, _Node[Id]] = {}
        self._queue: deque[_Node[Id]] = deque()
        self._waiters: dict[Id, set[Id]] = {}
        self._level = Level.NONE
        self._dirty = False
        self._in_flight = 0
        self._dispatches = 0
        self._cancelled = False
        self._error: BaseException | None = None

    def seed(self, ids: Iterable[Id]) -> None:
        """Register unknown ids as runnable, in order of ids."""
        with self._executor:
            for key in sorted(set(ids) - set(self._nodes)):
                self._register(key)

    def on_arrival(self, key: Id, *, schedulable: bool) -> None:
        """An id has arrived, or its content has changed. Data (not schedulable) never becomes a node."""
        with self._executor:
            self._dirty = True
            node = self._nodes.get(key)
            if node is None and schedulable:
                self._register(key)
            elif node is not None and node.state is _State.TERMINAL:
                self._push(node)
            elif node is not None and node.state is _State.RUNNING:
                node.again = True
            self._wake(key)

    def on_status_wake(self, key: Id, *, ready: bool = False, failed: bool = False) -> None:
        """The status of an id was written. One that is neither ready nor failed wakes nobody."""
        with self._executor:
            if ready or failed:
                self._wake(key)

    def set_rerun_at_drain(self, selects: Callable[[Id], bool] | None) -> None:
        """`selects`: asked on the worker after each dispatch whether the node runs again at the drain. None: never."""
        self._rerun_at_drain = selects or (lambda _: False)

    def cancel(self) -> None:
        """End the run as soon as the bodies that run have ended."""
        with self._executor:
            self._cancelled = True
            self._executor.notify()

    def run(self) -> LevelReport[Id]:
        """Run to the end. Raises what a body raised."""
        while self._advance():
            pass
        with self._executor:
            while self._in_flight:
                self._executor.wait()
            forced = () if self._cancelled else tuple(sorted(self._of(_State.PARKED)))
            for key in forced:
                self._unpark(self._nodes[key])
                self._nodes[key].state = _State.TERMINAL
        if self._error is not None:
            raise self._error
        runs = tuple((key, self._nodes[key].runs) for key in sorted(self._nodes))
        return LevelReport(
            level=self._level, dispatches=self._dispatches, runs=runs, forced=forced, cancelled=self._cancelled
        )

    def _advance(self) -> bool:
        with self._executor:
            if self._cancelled or self._error is not None:
                return False
            if self._in_flight >= self._executor.workers or (not self._queue and self._in_flight):
                self._executor.wait()
                return True
            if not self._queue:
                return self._drain()
            node = self._queue.popleft()
            if node.state is not _State.RUNNABLE:
                return True
            node.state = _State.RUNNING
            node.runs += 1
            self._in_flight += 1
            self._dispatches += 1
            level = self._level
        self._executor.submit(partial(self._task, node, level), partial(self._complete, node, None, False))
        return True

    def _drain(self) -> bool:
        """Nothing runs and nothing can run. False if that is the end."""
        parked = sorted(self._of(_State.PARKED))
        if not parked:
            dirty, self._dirty = self._dirty, False
            due = [key for key in sorted(self._of(_State.TERMINAL)) if self._nodes[key].rerun_at_drain] if dirty else []
            for key in due:
                self._push(self._nodes[key])
            return bool(due)
        if self._level is Level.FORCE:
            return False
        self._level = Level(self._level + 1)
        for key in parked:
            self._unpark(self._nodes[key])
            self._push(self._nodes[key])
        return True

    def _task(self, node: _Node[Id], level: Level) -> None:
        outcome: BlockedOn[Id] | None = None
        selects = False
        try:
            outcome = self._body(node.key, level)
            selects = self._rerun_at_drain(node.key)
        except BaseException as error:
            self._error = self._error or error
        self._complete(node, outcome, selects)

    def _complete(self, node: _Node[Id], outcome: BlockedOn[Id] | None, selects: bool) -> None:
        with self._executor:
            self._in_flight -= 1
            node.rerun_at_drain = selects
            try:
                self._settle(node, outcome)
            except BaseException as error:  # ids that cannot be compared
                self._error = self._error or error
            self._executor.notify()

    def _settle(self, node: _Node[Id], outcome: BlockedOn[Id] | None) -> None:
        if node.again:
            node.again = False
            self._push(node)
        elif outcome is None:
            node.state = _State.TERMINAL
            self._wake(node.key)
        elif any(key in self._nodes and self._nodes[key].state is _State.TERMINAL for key in outcome.ids):
            self._push(node)
        else:
            self._park(node, outcome.ids)

    def _register(self, key: Id) -> None:
        self._nodes[key] = _Node(key)
        self._push(self._nodes[key])

    def _push(self, node: _Node[Id]) -> None:
        node.state = _State.RUNNABLE
        self._queue.append(node)
        self._executor.notify()

    def _park(self, node: _Node[Id], blockers: Iterable[Id]) -> None:
        node.state, node.blockers = _State.PARKED, tuple(blockers)
        for key in node.blockers:
            self._waiters.setdefault(key, set()).add(node.key)

    def _unpark(self, node: _Node[Id]) -> None:
        for key in set(node.blockers):
            self._waiters[key].discard(node.key)
            if not self._waiters[key]:
                del self._waiters[key]
        node.blockers = ()

    def _wake(self, key: Id) -> None:
        for waiter in sorted(self._waiters.get(key, ())):
            self._unpark(self._nodes[waiter])
            self._push(self._nodes[waiter])

    def _of(self, state: _State) -> list[Any]:
        return [key for key, node in self._nodes.items() if node.state is state]
