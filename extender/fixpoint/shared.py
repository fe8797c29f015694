"""The engine's state behind its lock: what bodies, `at_rest` and other threads may call while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic

from extender.fixpoint.executor import Executor
from extender.fixpoint.gate import gate
from extender.fixpoint.graph import Graph
from extender.fixpoint.reasons import Reasons
from extender.fixpoint.records import Id, Need, Outcome, Status
from extender.fixpoint.report import RunEnd
from extender.fixpoint.things import Answer, Node


class Shared(Generic[Id]):
    """A `visit.Host`. Reports that come after the run was cancelled are ignored."""

    def __init__(self, graph: Graph[Id], executor: Executor) -> None:
        self._graph = graph
        self._executor = executor
        self._reasons = Reasons(graph.things, graph.limits.roots)
        #: How the run ended; None: it has not. What ended it first counts.
        self.ended: RunEnd | None = None

    def seed(self, ids: Iterable[Id]) -> None:
        with self._executor:
            if self.ended is not RunEnd.CANCELLED:
                self._graph.seed(ids)
                self._executor.notify()

    def report_arrival(self, key: Id, digest: Any, runnable: bool, by: Node[Id] | None) -> bool:
        with self._executor:
            return self._news(self.ended is not RunEnd.CANCELLED and self._graph.arrive(key, digest, runnable, by))

    def status(self, key: Id, status: Status) -> bool:
        with self._executor:
            return self._news(self.ended is not RunEnd.CANCELLED and self._graph.status(key, status))

    def gone(self, key: Id) -> bool:
        with self._executor:
            return self._news(self.ended is not RunEnd.CANCELLED and self._graph.gone(key))

    def _news(self, news: bool) -> bool:
        if news:
            self._executor.notify()
        return news

    def gate(self, node: Node[Id], needs: tuple[Need[Id], ...]) -> Outcome[Id] | None:
        with self._executor:
            return gate(self._graph.things, self._reasons, node, needs)

    def is_met(self, need: Need[Id]) -> bool:
        with self._executor:
            return self._graph.things.answer(need) is Answer.MET

    def content(self, key: Id) -> int:
        with self._executor:
            thing = self._graph.things.by_id.get(key)
            return thing.content if thing is not None else 0

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
        return self.ended is not None
