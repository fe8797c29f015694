"""The engine of start-up ordering: see the package for the diagram and the promises.

After every event the engine looks at a bounded number of the pods for which something has changed. It looks at the
others right afterwards, once other events have had their turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.core.deadlines import earliest, first_of
from extender.core.outcomes import OutcomeKind
from extender.ordering.causes import CauseFinder
from extender.ordering.events import (
    Configured,
    OrderingEvent,
    OrderingInstruction,
    PodGone,
    PodSeen,
    Synced,
    TermBegun,
    TermEnded,
    Ticked,
    WorkloadGone,
    WorkloadSeen,
)
from extender.ordering.explaining import BlockedPod, Explainer, blocked_pods
from extender.ordering.judging import Judge
from extender.ordering.records import PodKey
from extender.ordering.releasing import Releasing
from extender.ordering.state import EngineState, Phase
from extender.ordering.waiting import UNDECIDED, PodHandler
from extender.ordering.workloads import WorkloadHandler
from extender.ordering.writes.gate import GateRemoved
from extender.ordering.writes.met import MetMarked
from extender.ordering.writes.read import PodRead


class OrderingEngine:
    """An `Engine` of `extender.core.engine`."""

    def __init__(self) -> None:
        self.sequence = 0
        self.state = EngineState()
        judge = Judge(self.state)
        self._releasing = Releasing(self.state)
        self._pods = PodHandler(self.state, judge, self._releasing)
        self._workloads = WorkloadHandler(self.state)
        self._causes = CauseFinder(self.state, judge)
        self._explainer = Explainer(self.state)
        self._handlers: dict[type, Callable[[Any], None]] = {
            Configured: self._configured,
            PodSeen: self._pods.seen,
            PodGone: self._pods.gone,
            WorkloadSeen: self._workloads.seen,
            WorkloadGone: self._workloads.gone,
            Synced: self._synced,
            TermBegun: self._term_begun,
            TermEnded: self._term_ended,
            GateRemoved: self._gate_removed,
            MetMarked: self._reported,
            PodRead: self._pod_read,
            Ticked: lambda _: None,
        }

    # -- the engine protocol

    def handle(self, event: OrderingEvent, now: float) -> list[OrderingInstruction]:
        """Return the instructions that this event causes."""
        self.sequence += 1
        state = self.state
        state.now, state.number = now, self.sequence
        state.out = []
        self._handlers[type(event)](event)
        self._pods.on_time()
        self._releasing.on_time()
        self._causes.on_time()
        return state.out

    def next_due(self) -> float | None:
        """When the next timer is due, seconds of the engine's clock; None if there is none."""
        state = self.state
        if state.has_work():
            return state.now
        timers = [state.graces] if state.term is None else [state.graces, state.retries, state.reads]
        return first_of(earliest(timers) if state.is_synced else None, self._causes.next_due())

    @property
    def term(self) -> int | None:
        """The term in which this server decides; None: another one does."""
        return self.state.term

    @property
    def is_synced(self) -> bool:
        """Whether all informers have delivered their first lists."""
        return self.state.is_synced

    def missing(self) -> str:
        """Return why nothing is decided now; "" if it is."""
        if not self.state.is_synced:
            return "the pods and workloads of the cluster are not known yet"
        return "another replica leads" if self.state.term is None else ""

    # -- what people read

    def explain(self, key: PodKey) -> list[str]:
        """Return sentences that say what a pod waits for, and why; [] for a pod that is not known."""
        return self._explainer.explain(key)

    def blocked(self) -> list[BlockedPod]:
        """All pods that are held back, with their root causes."""
        return list(blocked_pods(self.state))

    # -- settings, leadership

    def _configured(self, event: Configured) -> None:
        self.state.grace, self.state.kinds = event.grace, event.kinds
        self._look_at_all()

    def _synced(self, _: Synced) -> None:
        self.state.is_synced = True
        self._look_at_all()

    def _look_at_all(self) -> None:
        for uid, waiting in self.state.waiting.items():
            if waiting.phase in UNDECIDED:
                self.state.looks[uid] = None

    def _term_begun(self, event: TermBegun) -> None:
        self._releasing.end_term()
        self.state.term = event.term
        self._pods.begin_term()
        self._releasing.begin_term()

    def _term_ended(self, _: TermEnded) -> None:
        self._releasing.end_term()
        self.state.term = None

    # -- reports

    def _gate_removed(self, event: GateRemoved) -> None:
        if event.pod is not None:
            self._pods.seen(PodSeen(event.pod))
        self._reported(event)

    def _reported(self, event: GateRemoved | MetMarked) -> None:
        if event.outcome.kind is OutcomeKind.GONE:
            self._pods.gone(PodGone(event.key, event.uid))
        self._releasing.reported(event.uid, event.token, event.outcome)

    def _pod_read(self, event: PodRead) -> None:
        if event.outcome.kind is OutcomeKind.GONE:
            self._pods.gone(PodGone(event.key, event.uid))
            return
        if event.pod is not None:
            if event.pod.uid != event.uid:
                self._pods.gone(PodGone(event.key, event.uid))
            self._pods.seen(PodSeen(event.pod))
        self._releasing.read(event.uid, event.outcome)

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError that names the violation."""
        state = self.state
        state.tree.validate()
        state.index.validate()
        for deadlines in (state.graces, state.retries, state.reads):
            deadlines.validate()
        parked = set(state.index.waiting())
        assert parked <= state.waiting.keys(), f"{parked - state.waiting.keys()} are parked and do not wait"
        for uid, waiting in state.waiting.items():
            assert waiting.record == state.tree.pods[uid], f"{uid}: another record"
            if waiting.phase is Phase.FREE:
                holds = waiting.held or waiting.after or waiting.record.is_gated
                assert not holds, f"{uid} is not free"
            elif waiting.phase is not Phase.WAITING:
                assert uid not in parked, f"{uid} is parked and {waiting.phase}"
            elif state.is_synced and uid not in state.looks:
                assert waiting.reason == waiting.held, f"{uid}: {waiting.reason} is not told"
                has_keys = waiting.unmet or waiting.unknown
                assert uid in parked or not has_keys, f"{uid} waits and is not parked"
