"""What runs the engine of pods: kube-scheduler's verbs as calls, over the loop that owns the engine.

    HTTP threads ----> filter, preempt, prioritize: answered at once
    bind             : a future, completed when the outcome is known

`loop.py` has lock, timer, fence and recording; `readmodel.py` what people are shown. Every caller is answered: also if
the engine fails, and if the server stops.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.reasons import Code, reason
from extender.kube.informers.podreader import PodReader
from extender.kube.lease.elector import Fence, no_fence
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.events import (
    AlgorithmPrepared,
    BindAnswer,
    BindRequested,
    Candidate,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    PreemptAnswer,
    PreemptRequested,
    PrepareAlgorithm,
    Reconfigured,
    ReconfigureRequested,
    TermEnded,
    Ticked,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.terms import HandoverVersions
from extender.server.loop import EngineLoop, Kinds
from extender.server.readmodel import ReadModel
from extender.server.views import Readiness

#: What the I/O layers have to carry out.
Command = WriteBinding | ReadPod | Evict | RecordPreemption | RequeuePod | RecordEvent
#: What is asked and answered at once.
_Question = FilterRequested | PreemptRequested | ReconfigureRequested | AlgorithmPrepared
_KINDS: Kinds[Event] = Kinds(
    answers=(FilterAnswer, PreemptAnswer, PrepareAlgorithm, Reconfigured),
    fenced=(FilterRequested, PreemptRequested, BindRequested),
    term_ended=TermEnded,
    tick=Ticked(),
)


class Runtime:
    """Thread-safe. `carry_out` must not block: it hands the command to the committer's own threads."""

    def __init__(
        self,
        machine: SchedulerStateMachine,
        carry_out: Callable[[Command], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Callable[[Event, float], None] | None = None,
        algorithm: str = "algorithm",
        reader: PodReader | None = None,
    ) -> None:
        self._machine = machine
        self._carry_out = carry_out
        #: Makes the records of the pods that callers send.
        self.reader = reader or PodReader()
        self.loop: EngineLoop[Event, Instruction] = EngineLoop(
            machine, self._deliver, _KINDS, broke=self._refuse_binds, clock=clock, fence=fence, record=record
        )
        self.model = ReadModel(machine, self.loop, algorithm=algorithm)
        #: Handles informers' and committer's events, in order.
        self.handle = self.loop.handle
        self._requests = itertools.count(1)
        self._binds: dict[int, Future[BindAnswer]] = {}
        self._hindrances: list[Callable[[], str]] = []
        self._remarks: list[Callable[[], str]] = []

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the timer."""
        self.loop.start()

    def stop(self) -> None:
        """Stop the timer and refuse the binds that still wait. Idempotent."""
        self.loop.stop()
        self._refuse_binds()

    def give_up(self, why: str) -> None:
        """The state cannot be trusted any more: ask to be restarted, by failing /livez."""
        self.loop.give_up(why)

    def add_hindrance(self, source: Callable[[], str]) -> None:
        """What may keep it from being ready, asked while it is not: "" or a text for /readyz."""
        self._hindrances.append(source)

    def add_remark(self, source: Callable[[], str]) -> None:
        """What an operator should look at although it is ready: "" or a text for /readyz."""
        self._remarks.append(source)

    # -- the scheduler's verbs ------------------------------------------------------------------------------------

    def filter(self, pod: Pod, nodes: SuggestedNodes) -> FilterAnswer:
        """Which of the offered nodes the pod may go to; an error if the engine cannot say."""
        answer = self.loop.ask(FilterRequested(pod, nodes))
        if isinstance(answer, FilterAnswer):
            return answer
        return FilterAnswer(reason=reason(Code.NOT_READY, detail=self.loop.broken), error=True)

    def preempt(self, pod: Pod, candidates: tuple[Candidate, ...]) -> PreemptAnswer:
        """Which pods have to go for this one; an error if the engine cannot say."""
        answer = self.loop.ask(PreemptRequested(pod, candidates))
        if isinstance(answer, PreemptAnswer):
            return answer
        return PreemptAnswer(reason=reason(Code.NOT_READY, detail=self.loop.broken), error=True)

    def bind(self, namespace: str, name: str, uid: str, node: str) -> Future[BindAnswer]:
        """Completes when the outcome is known, which may take as long as the API server does."""
        request = next(self._requests)
        future: Future[BindAnswer] = Future()
        self._binds[request] = future
        if not self.loop.stopping:
            self.loop.handle(BindRequested(request, namespace, name, uid, node))
        if self.loop.stopping or self.loop.broken:
            self._refuse_binds()
        return future

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        """Scores 0..10 of the offered nodes; none outside of a term."""
        with self.loop.paused():
            return {} if self.loop.overdue() else self._machine.prioritize(pod, nodes)

    def ask(self, event: _Question) -> Instruction | None:
        """The answer to an event that is answered at once; None from an engine that failed."""
        return self.loop.ask(event)

    def _deliver(self, instruction: Instruction) -> None:
        if isinstance(instruction, BindAnswer):
            self._complete(instruction)
        elif isinstance(instruction, Command):
            self._carry_out(instruction)

    def _refuse_binds(self) -> None:
        """No caller is left waiting for an answer that cannot come any more. A write that is under way goes on."""
        why = reason(Code.NOT_READY, detail=self.loop.broken or "it is shutting down")
        for request in list(self._binds):
            self._complete(BindAnswer(request, why))

    def _complete(self, answer: BindAnswer) -> None:
        future = self._binds.pop(answer.request, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(answer)

    # -- for probes, and for the next leader ----------------------------------------------------------------------

    def liveness(self) -> Readiness:
        """Whether the process can go on."""
        return Readiness(not self.loop.broken, self.loop.broken)

    def readiness(self) -> Readiness:
        """Whether verbs are served: it is informed, and leads."""
        return self._unless(self._machine.missing() or ("the term is over" if self.loop.overdue() else ""))

    @property
    def serves(self) -> bool:
        """The same in short, for every answer of a verb."""
        loop = self.loop
        return not (loop.broken or loop.stopping or self._machine.missing() or loop.overdue())

    def informed(self) -> Readiness:
        """Whether nodes and pods are known: it serves, or could lead."""
        return self._unless("" if self._machine.synced else self._machine.missing())

    def known(self) -> HandoverVersions | None:
        """What the next leader has to know, once the term is over; None while that can still change."""
        with self.loop.paused():
            return None if self.loop.broken else self._machine.known()

    def _unless(self, missing: str) -> Readiness:
        if self.loop.broken:
            return Readiness(False, self.loop.broken)
        if self.loop.stopping:
            return Readiness(False, "shutting down")
        if not missing:
            return Readiness(True, "; ".join(text for source in self._remarks if (text := source())))
        why = "; ".join(text for source in self._hindrances if (text := source()))
        return Readiness(False, f"{missing}{': ' if why else ''}{why}")
