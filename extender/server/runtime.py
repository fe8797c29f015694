"""Runs the engine of pods: kube-scheduler's verbs as calls, on top of the loop that owns the engine.

    HTTP threads ----> filter, preempt, prioritize: answered at once
    bind             : a future, completed when the outcome is known

`loop.py` has lock, timer, fence and recording; `readmodel.py` has the views for pages and metrics. Every caller gets an
answer, also if the engine fails or the server stops.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import get_args

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.reasons import Code, reason
from extender.core.freshness import HandoverVersions
from extender.kube.informers.podreader import PodReader
from extender.kube.lease.elector import Fence, no_fence
from extender.scheduling.events import (
    AlgorithmPrepared,
    Answer,
    BindAnswer,
    BindRequested,
    Candidate,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
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
from extender.scheduling.faults import FaultKind
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.guard import SLOW
from extender.server.loop import EngineLoop, Kinds, LoopBusy, Record
from extender.server.readmodel import ReadModel
from extender.server.replay_hint import not_recorded
from extender.server.views import Readiness
from extender.server.watchdog import Watchdog, Watched

#: The events that are answered at once.
_Question = FilterRequested | PreemptRequested | ReconfigureRequested | AlgorithmPrepared
_KINDS: Kinds[Event] = Kinds(
    answers=get_args(Answer),
    fenced=(FilterRequested, PrioritizeRequested, PreemptRequested, BindRequested),
    term_ended=TermEnded,
    tick=Ticked(),
)


#: The methods of the algorithm that questions are about; other events are called by their own name.
_CALLS: Mapping[type[object], str] = {
    FilterRequested: "schedule",
    PreemptRequested: "schedule",
    PrioritizeRequested: "prioritize",
}
#: Events that report everything that is there: they take as long as there is much.
_LARGE = (Synced, TermBegan, ReconfigureRequested, AlgorithmPrepared)


class Runtime:
    """The API of the engine of pods. Thread-safe.

    `carry_out` gets every instruction that is no answer. It must not block: it hands the command to the committer's
    own threads. `hang`: seconds after which an event that is still being handled fails /livez; 0: never.
    `slow`: seconds after which an event counts as a fault of the algorithm. `replay` returns how an event is replayed,
    by its number.
    """

    def __init__(
        self,
        machine: SchedulerStateMachine,
        carry_out: Callable[[Instruction], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Record[Event, Instruction] | None = None,
        algorithm: str = "algorithm",
        reader: PodReader | None = None,
        hang: float = 0.0,
        slow: float = SLOW,
        replay: Callable[[int], str] = not_recorded,
    ) -> None:
        self._machine = machine
        self._carry_out = carry_out
        #: Decodes the pods that callers send.
        self.reader = reader or PodReader()
        self.loop: EngineLoop[Event, Instruction] = EngineLoop(
            machine,
            self._deliver,
            _KINDS,
            broke=self._refuse_binds,
            clock=clock,
            fence=fence,
            record=record,
            slow=slow,
            on_slow=self._was_slow,
        )
        self._slow = slow
        self.model = ReadModel(
            machine, self.loop, algorithm=algorithm, replay=replay, messages=self.reader.messages.of, slow=slow
        )
        #: The algorithms that are prepared on the engine's instruction.
        self.preparations = machine.preparations
        #: Handles events of informers and committer, in order.
        self.handle = self.loop.handle
        self._requests = itertools.count(1)
        self._binds: dict[int, Future[BindAnswer]] = {}
        self._not_ready_reasons: list[Callable[[], str]] = []
        self._readiness_warnings: list[Callable[[], str]] = []
        #: The nodes that the algorithm failed to take in, as last seen.
        self._unknown: list[str] = []
        self.watchdog = Watchdog(self.loop, Watched(algorithm, machine.driver.fault_log, replay), hang=hang, slow=slow)
        self.model.add_gauges(self.watchdog.metrics)
        self.add_readiness_warning(self._unknown_nodes)
        self.add_readiness_warning(self.watchdog.readiness_warning)

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the timer and the watchdog."""
        self.loop.start()
        self.watchdog.start()

    def stop(self) -> None:
        """Stop the timer and the watchdog, and refuse the binds that still wait. Idempotent."""
        self.loop.stop()
        self.watchdog.stop()
        self._refuse_binds()

    def give_up(self, why: str) -> None:
        """Fail /livez, so that the process is restarted: its state cannot be trusted any more."""
        self.loop.give_up(why)

    def add_not_ready_reason(self, source: Callable[[], str]) -> None:
        """Add a source of reasons for not being ready, called while it is not: "" or a text for /readyz."""
        self._not_ready_reasons.append(source)

    def add_readiness_warning(self, source: Callable[[], str]) -> None:
        """Add a source of warnings to operators, called while it is ready: "" or a text for /readyz."""
        self._readiness_warnings.append(source)

    # -- the scheduler's verbs ------------------------------------------------------------------------------------

    def filter(self, pod: Pod, nodes: SuggestedNodes) -> FilterAnswer:
        """Return which of the offered nodes the pod may go to; an error if the engine has failed."""
        answer = self.loop.ask(FilterRequested(pod, nodes))
        if isinstance(answer, FilterAnswer):
            return answer
        return FilterAnswer(reason=reason(Code.NOT_READY, detail=self.loop.broken), error=True)

    def preempt(self, pod: Pod, candidates: tuple[Candidate, ...]) -> PreemptAnswer:
        """Return the victims for this pod; an error if the engine has failed."""
        answer = self.loop.ask(PreemptRequested(pod, candidates))
        if isinstance(answer, PreemptAnswer):
            return answer
        return PreemptAnswer(reason=reason(Code.NOT_READY, detail=self.loop.broken), error=True)

    def bind(self, namespace: str, name: str, uid: str, node: str) -> Future[BindAnswer]:
        """Return a future that completes when the outcome is known, which may take as long as the API server takes."""
        request = next(self._requests)
        future: Future[BindAnswer] = Future()
        self._binds[request] = future
        if not self.loop.stopping:
            self.loop.handle(BindRequested(request, namespace, name, uid, node))
        if self.loop.stopping or self.loop.broken:
            self._refuse_binds()
        return future

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        """Return scores 0..10 of the offered nodes; none outside a term."""
        answer = self.loop.ask(PrioritizeRequested(pod, nodes))
        return answer.scores if isinstance(answer, PrioritizeAnswer) else {}

    def ask(self, event: _Question) -> Instruction | None:
        """Return the answer to an event that is answered at once; None if the engine has failed."""
        return self.loop.ask(event)

    def _deliver(self, instruction: Instruction) -> None:
        if isinstance(instruction, BindAnswer):
            self._complete(instruction)
        else:
            self._carry_out(instruction)

    def _was_slow(self, event: Event, now: float, seconds: float) -> None:
        """Note an event that took too long, under the lock. A start reports the whole cluster in one event."""
        if isinstance(event, _LARGE):
            return
        call = _CALLS.get(type(event), type(event).__name__)
        subject = getattr(event, "pod", None) or getattr(event, "node", None)
        text = f"took {seconds:.1f} s, and server.slow_seconds is {self._slow:g} s"
        self._machine.driver.fault_log.noticed(FaultKind.SLOW, call, text, now, subject)

    def _refuse_binds(self) -> None:
        """Refuse all pending bind requests, whose answers cannot come any more. A write in flight goes on."""
        why = reason(Code.NOT_READY, detail=self.loop.broken or "it is shutting down")
        for request in list(self._binds):
            self._complete(BindAnswer(request, why))

    def _complete(self, answer: BindAnswer) -> None:
        future = self._binds.pop(answer.request, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(answer)

    def fault_sentences(self) -> list[str]:
        """What the algorithm did wrong within ten minutes: a sentence for each kind of fault, the newest first."""
        return self.watchdog.faults()

    # -- for probes, and for the next leader ----------------------------------------------------------------------

    def liveness(self) -> Readiness:
        """Whether the process can go on; if not, it needs a restart. Answered without the engine's lock."""
        why = self.loop.broken or self.watchdog.hangs()
        return Readiness(not why, why)

    def readiness(self) -> Readiness:
        """Whether verbs are served: this replica is synced and leads."""
        return self._unless(self._machine.missing() or ("the term is over" if self.loop.overdue() else ""))

    @property
    def serves(self) -> bool:
        """The same as a bool, cheap enough for every answer of a verb."""
        loop = self.loop
        return not (loop.broken or loop.stopping or self._machine.missing() or loop.overdue())

    def informed(self) -> Readiness:
        """Whether nodes and pods are synced: this replica serves, or could lead."""
        return self._unless("" if self._machine.synced else self._machine.missing())

    def known(self) -> HandoverVersions | None:
        """The versions that the next leader must have seen, once the term is over; None while they can still change."""
        with self.loop.paused():
            return None if self.loop.broken else self._machine.known()

    def _unknown_nodes(self) -> str:
        """A warning for probes, which do not wait for the lock: while it is held, the last answer counts."""
        with suppress(LoopBusy), self.loop.paused(patience=0):
            self._unknown = sorted(self._machine.driver.unknown_nodes)
        unknown = self._unknown
        if not unknown:
            return ""
        shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
        return f"the algorithm failed to take in nodes, which get no pods: {shown}"

    def _unless(self, missing: str) -> Readiness:
        if self.loop.broken:
            return Readiness(False, self.loop.broken)
        if self.loop.stopping:
            return Readiness(False, "shutting down")
        if hangs := self.watchdog.hangs():
            return Readiness(False, hangs)
        if not missing:
            return Readiness(True, "; ".join(text for source in self._readiness_warnings if (text := source())))
        why = "; ".join(text for source in self._not_ready_reasons if (text := source()))
        return Readiness(False, f"{missing}{': ' if why else ''}{why}")
