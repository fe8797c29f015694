"""The engine's state behind its lock: what bodies, `at_rest` and other threads may call while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from extender.fixpoint.executor import Executor
from extender.fixpoint.gate import gate
from extender.fixpoint.graph import Graph
from extender.fixpoint.interrupts import Interrupted
from extender.fixpoint.reasons import Reasons
from extender.fixpoint.records import Id, Need, Outcome, Status
from extender.fixpoint.report import RunEnd
from extender.fixpoint.things import Answer, Node

#: This file: a body is not interrupted while it is in here, since it may be in the middle of a change.
SHARED = (lambda: None).__code__.co_filename


class Shared(Generic[Id]):
    """A `visit.Host`. Reports that come after the run was cancelled are ignored."""

    def __init__(self, graph: Graph[Id], executor: Executor) -> None:
        self._graph = graph
        self._executor = executor
        self._reasons = Reasons(graph.things, graph.limits.roots)
        #: How the run ended; None: it has not. What ended it first counts.
        self.ended: RunEnd | None = None
        #: What ends the run with an exception: an interrupt in a body, or a fault that left the state half changed.
        self.fatal: BaseException | None = None
        #: The grace of a run that ends early is over: bodies find no engine any more.
        self.closed = False

    def seed(self, ids: Iterable[Id]) -> None:
        known = list(ids)
        self._report(lambda: self._graph.seed(known))

    def report_arrival(self, key: Id, digest: Any, runnable: bool, by: Node[Id] | None) -> bool:
        return self._report(lambda: self._graph.arrive(key, digest, runnable, by))

    def status(self, key: Id, status: Status) -> bool:
        return self._report(lambda: self._graph.status(key, status))

    def gone(self, key: Id) -> bool:
        return self._report(lambda: self._graph.gone(key))

    def _report(self, change: Callable[[], bool]) -> bool:
        """Change the graph; whether that was news. An exception in the middle of a change ends the run."""
        if self.closed:
            return False
        with self._executor:
            if self.closed or self.ended is RunEnd.CANCELLED:
                return False
            before = self._graph.things.generation
            try:
                news = change()
            except BaseException as error:
                if self._graph.things.generation != before:
                    self.fail(error)
                raise
            if news:
                self._executor.notify()
            return news

    def fail(self, error: BaseException) -> None:
        """End the run with this exception, unless another one does so already. The lock is held."""
        self.fatal = self.fatal or error
        self._executor.notify()

    def gate(self, node: Node[Id], needs: tuple[Need[Id], ...]) -> Outcome[Id] | None:
        self._check_open()
        with self._executor:
            return gate(self._graph.things, self._reasons, node, needs)

    def is_met(self, need: Need[Id]) -> bool:
        self._check_open()
        with self._executor:
            return self._graph.things.answer(need) is Answer.MET

    def content(self, key: Id) -> int:
        self._check_open()
        with self._executor:
            thing = self._graph.things.by_id.get(key)
            return thing.content if thing is not None else 0

    def _check_open(self) -> None:
        if self.closed:
            raise Interrupted

    def cancel(self) -> None:
        with self._executor:
            self.note_divergence()
            self.ended = self.ended or RunEnd.CANCELLED
            self._executor.notify()

    def note_divergence(self) -> None:
        """The lock is held."""
        if self._graph.diverged:
            self.ended = self.ended or RunEnd.DIVERGED

    @property
    def cancelled(self) -> bool:
        return self.ended is not None or self.fatal is not None
