"""The state machine of pods: one event in, the instructions it causes out.

    handle(event, now) -> [instruction, ...]

`state/transitions.py` has the state diagram and the single transition table. `verbs/` answers kube-scheduler,
`informer_handler.py` handles informer events, `write_results.py` handles write results and timers, `preemption/`
carries out preemptions of our own, `reconfiguration.py` replaces the algorithm at run time. This module wires them
together in front of one algorithm.

Promises: every verb is answered (filter and preempt in the same call, bind when its outcome is known); the same events
give the same instructions, if `next_due` is asked after each, which tidies up the timers and so decides who comes first
of those that are due together; callers, informers and algorithms cannot make `handle` raise: an exception out of it is
a bug of the engine itself. `validate()` derives every invariant again and raises AssertionError with the pod's history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import assert_never

from algorithm.interface import SchedulerAlgorithm, SuggestedNodes
from algorithm.model import Pod, PodKey
from algorithm.reasons import Code, reason
from extender.core.deadlines import earliest, first_of
from extender.core.freshness import HandoverVersions
from extender.scheduling.commands import BindFinished, EvictFinished, PodRead, PreemptionRecorded
from extender.scheduling.dependencies import DependencyHandler
from extender.scheduling.driver import AlgorithmDriver
from extender.scheduling.events import (
    AlgorithmPrepared,
    BindAnswer,
    BindRequested,
    DependenciesChanged,
    DependenciesForgotten,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    PrioritizeAnswer,
    PrioritizeRequested,
    ReconfigureRequested,
    Synced,
    TermBegan,
    TermEnded,
    Ticked,
)
from extender.scheduling.informer_handler import InformerHandler
from extender.scheduling.policy import Policy
from extender.scheduling.preemption.executor import PreemptionExecutor
from extender.scheduling.preemption.recovery import PreemptionRecovery
from extender.scheduling.reconfiguration import Preparations, Reconfiguring
from extender.scheduling.requeue import Requeuer
from extender.scheduling.reservations import Reservations
from extender.scheduling.state import consistency
from extender.scheduling.state.pod_info import PodInfo
from extender.scheduling.state.transitions import SchedulingState
from extender.scheduling.terms import NOT_LEADING, TermHandler
from extender.scheduling.verbs.bind import BindHandler
from extender.scheduling.verbs.filter import FilterHandler
from extender.scheduling.verbs.preempt import PreemptHandler
from extender.scheduling.write_results import WriteResultHandler


class SchedulerStateMachine:
    """All pods, one algorithm. Not thread-safe: `server.loop` has one lock around it.

    `epoch` plus the `now` of an event is the time in seconds since 1970, used only for display. None: unknown.
    `preparations` has the algorithms that the I/O layer prepares on our instruction.
    """

    def __init__(
        self, algorithm: SchedulerAlgorithm, policy: Policy | None = None, *, epoch: float | None = None
    ) -> None:
        self.policy = policy or Policy()
        self.preparations = Preparations()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.driver = AlgorithmDriver(algorithm, self.policy.limits)
        self.driver.epoch = epoch
        self.state = SchedulingState(self.driver, self.policy)
        self._requeuer = Requeuer(self.state, self.counts)
        self.dependencies = DependencyHandler(self.state, self._requeuer, self.counts)
        self._informer_handler = InformerHandler(self.state, self._requeuer, self.counts)
        self._bind = BindHandler(self.state, self.counts)
        self.executor = PreemptionExecutor(self.state, self._requeuer, self.counts)
        self._reservations = Reservations(self.state, self._requeuer, self.counts)
        self._recovery = PreemptionRecovery(self.executor)
        self._preempt = PreemptHandler(self.state, self._requeuer, self.executor, self.dependencies, self.counts)
        self._filter = FilterHandler(
            self.state, self._requeuer, self._bind, self._preempt, self.dependencies, self.counts
        )
        self._write_results = WriteResultHandler(self.state, self._informer_handler, self.counts)
        self._terms = TermHandler(self.state, self._informer_handler, self._bind, self._requeuer)
        self._reconfiguring = Reconfiguring(
            self.state, self._informer_handler, self.executor, self._requeuer, self._reservations, self.preparations
        )

    @property
    def synced(self) -> bool:
        """Whether the informers have delivered their first lists."""
        return self.state.synced

    @property
    def sequence(self) -> int:
        """The number of the last event: in its log line, in the histories of pods, and in a recording."""
        return self.state.sequence

    @property
    def term(self) -> int | None:
        """The current term; None outside any term, 0 without leader election."""
        return self.state.term

    def missing(self) -> str:
        """Why no verb can be served now; "" if verbs are served."""
        if not self.state.synced:
            return "nodes and pods are not synced yet"
        return NOT_LEADING if self.state.term is None else ""

    def known(self) -> HandoverVersions | None:
        """The versions that the next leader must have seen, once the term is over; None while they can still change."""
        return self._terms.known()

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Return the instructions that this event causes. `now` is in seconds of a monotonic clock."""
        self.driver.now = now
        self.state.sequence += 1
        self.driver.fault_log.number = self.state.sequence
        out = self._handle(event, now)
        if self.executor.active or self.executor.planner.unbound or self.state.disturbed or self.state.undeferred:
            out += self.executor.after(event, now)
        if self.driver.reserved or self._reservations.active:
            out += self._reservations.after(event, now)
        return out if self.state.term == 0 else self._terms.stamp(out, event)

    def _handle(self, event: Event, now: float) -> list[Instruction]:
        match event:
            case PodSeen():  # first, as half of all events are
                return self._informer_handler.pod_seen(event, now)
            case FilterRequested() | PreemptRequested() | BindRequested() if missing := self.missing():
                return [_not_ready(event, missing)]
            case FilterRequested():
                return self._filter.filter(event, now)
            case PrioritizeRequested():
                return [PrioritizeAnswer(self._prioritize(event.pod, event.nodes))]
            case PreemptRequested():
                return self._preempt.preempt(event, now)
            case BindRequested():
                return self._bind.bind(event, now)
            case PodGone():
                return self._informer_handler.pod_lost(event, now)
            case NodeSeen():
                return self._informer_handler.node_seen(event, now)
            case NodeGone():
                return self._informer_handler.node_gone(event, now)
            case BindFinished():
                return self._write_results.bind_finished(event, now)
            case PodRead():
                return self._write_results.pod_read(event, now)
            case EvictFinished():
                return self.executor.evict_finished(event, now)
            case PreemptionRecorded():
                return self.executor.recorded(event, now)
            case Synced():
                self.state.synced = True
                return self._recovery.resume(now) if self.term is not None else []
            case TermBegan():
                began = self.term
                out = self._terms.began(event, now)
                return out if self.term == began else out + self._recovery.resume(now)
            case TermEnded():
                return self._terms.ended(event, now)
            case DependenciesChanged():
                return self.dependencies.changed(event, now)
            case DependenciesForgotten():
                return self.dependencies.forgotten(event)
            case ReconfigureRequested():
                return self._reconfiguring.requested(event)
            case AlgorithmPrepared():
                return self._reconfiguring.prepared(event, now)
            case Ticked():
                return self._write_results.tick(now) + self.executor.tick(now) + self._requeuer.requeue_due(now)
            case _:
                assert_never(event)

    def _prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        """Return scores 0..10 by node name; if the pod already has a place, only that node, with score 10."""
        if self.missing() or pod.oversized or not self.policy.manages(pod):
            return {}
        pod_info = self.state.pods.get(pod.uid)
        if pod_info is not None and pod_info.node:
            return {pod_info.node: 10}
        return self.driver.prioritize(pod, nodes)

    def next_due(self) -> float | None:
        """When the next Ticked has work to do, seconds; None if no timer is set."""
        timers = (
            self.state.ledger.deadlines,
            self.state.unresolved,
            self.executor.outcomes.reviews,
            self.executor.backoff.protected,
            self.executor.backoff.backing_off,
            self._reservations.lapses,
        )
        due = earliest(timers)
        return first_of(due, self._requeuer.next_due()) if self._requeuer.queue or self._requeuer.shown else due

    # -- read model -----------------------------------------------------------------------------------------------

    def pod_infos(self) -> list[PodInfo]:
        """All pods, sorted by namespace and name. Read-only."""
        return sorted(self.state.pods, key=lambda pod_info: pod_info.key)

    def find(self, namespace: str, name: str) -> PodInfo | None:
        """The pod with this name; None if there is none."""
        return self.state.pods.named(PodKey(namespace, name))

    def history(self, uid: str) -> list[str]:
        """The history of one pod as text lines; empty if the pod is unknown."""
        pod_info = self.state.pods.get(uid)
        return [f"{line.at:.3f} #{line.event} {line.text}" for line in pod_info.history] if pod_info else []

    # -- invariants -----------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Derive every invariant again. Raises AssertionError with the history of the offending pod."""
        state = self.state
        state.pods.validate()
        state.cache.validate()
        state.ledger.validate()
        state.wait_index.validate()
        consistency.validate(state)


def _not_ready(event: FilterRequested | PreemptRequested | BindRequested, missing: str) -> Instruction:
    why = reason(Code.NOT_READY, detail=missing)
    match event:
        case FilterRequested():
            return FilterAnswer(reason=why, error=True)
        case PreemptRequested():
            return PreemptAnswer(reason=why, error=True)
        case BindRequested():
            return BindAnswer(event.request, why)
