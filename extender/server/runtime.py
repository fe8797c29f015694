"""The owner of the heart: one lock, one timer, and the way out for instructions.

    HTTP threads ----> filter, preempt, prioritize: answered at once        +-> answers
    bind             : a future, completed when the outcome is known        |
    informer threads -> handle(events)  --- [ lock: heart.handle ] ---------+-> carry_out(instruction)  (committer)
    committer        -> handle(reports)                                     |
    timer thread     -> Ticked, when something is due                       +-> record(event, now)      (replay)

Promises: nothing slow happens under the lock (no I/O, no encoding); informer batches are applied in small slices, so a
filter never waits for more than some dozens of events; instructions are carried out outside the lock.

A bug of the heart (an exception out of `handle`) is never swallowed: the runtime says so in /livez and /readyz, so that
the process is restarted. That costs nothing but time: all state is rebuilt from the API server.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec
import structlog

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.reasons import Code, reason
from extender.kube.informers.podreader import PodReader
from extender.kube.lease.elector import Fence, no_fence
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.comparison import CachedState, beliefs_of
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
from extender.scheduling.state.cache import Snapshot
from extender.scheduling.terms import HandoverVersions
from extender.server import metrics as tally
from extender.server.views import (
    Explanation,
    Metric,
    NodeView,
    PodView,
    Readiness,
    nearest,
    node_views,
    pod_view,
    reason_of,
)

log = structlog.get_logger(__name__)

T = TypeVar("T")

#: What the rim has to carry out.
Command = WriteBinding | ReadPod | Evict | RecordPreemption | RequeuePod | RecordEvent
#: What is asked and answered at once.
_Question = FilterRequested | PreemptRequested | ReconfigureRequested | AlgorithmPrepared
_Answer = FilterAnswer | PreemptAnswer | PrepareAlgorithm | Reconfigured
#: Events of a batch that are handled before the lock is offered to others.
SLICE = 25
#: What is refused outside of a term.
_VERBS = (FilterRequested, PreemptRequested, BindRequested)
#: Pods that are looked at for people while the lock is held.
VIEWS = 100
#: Whoever releases the lock and takes it again at once has it back before anybody has woken up. So after each so many
#: seconds of work it is left alone for some.
_WORK, _TURN = 0.002, 0.0005
#: In the name of a metric.
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
#: The timer never runs more often than this, seconds.
SHORTEST_TICK = 0.05


class Runtime:
    """Thread-safe. `carry_out` must not block: it hands the command to the committer's own threads."""

    def __init__(
        self,
        lifecycle: SchedulerStateMachine,
        carry_out: Callable[[Command], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        fence: Fence = no_fence,
        record: Callable[[Event, float], None] | None = None,
        algorithm: str = "algorithm",
        reader: PodReader | None = None,
    ) -> None:
        self._heart = lifecycle
        #: Makes the records of the pods that callers send.
        self.reader = reader or PodReader()
        #: The name of the algorithm's metrics begins with it.
        self._algorithm = _NOT_IN_A_NAME.sub("_", algorithm.lower())
        self._carry_out = carry_out
        self._clock = clock
        self._fence = fence
        self._record = record
        self._lock = threading.Lock()
        self._explaining = threading.Lock()
        self._timer_wake = threading.Event()
        self._stopping = False
        self._next_tick = float("inf")
        #: Until when the timer sleeps. It is not woken for what is due later, and wakes for nothing now and then.
        self._wakes_at = float("inf")
        self._requests = itertools.count(1)
        self._binds: dict[int, Future[BindAnswer]] = {}
        self._broken = ""
        self._gauges: list[Callable[[], Sequence[Metric]]] = []
        self._hindrances: list[Callable[[], str]] = []
        self._remarks: list[Callable[[], str]] = []
        self._timer = threading.Thread(target=self._run_timer, name="waggle-timer", daemon=True)

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        """Stops the timer and refuses the binds that still wait. Idempotent."""
        self._stopping = True
        self._timer_wake.set()
        if self._timer.is_alive() and self._timer is not threading.current_thread():
            self._timer.join(timeout=5)
        self._refuse_binds()

    def give_up(self, why: str) -> None:
        """What is known cannot be trusted any more: ask to be restarted, by failing /livez."""
        log.error("restart needed", why=why)
        self._broken = self._broken or f"restart needed: {why}"

    def add_gauges(self, source: Callable[[], Sequence[Metric]]) -> None:
        """More metrics, asked at each scrape (the informers' staleness, the committer's queue)."""
        self._gauges.append(source)

    def add_hindrance(self, source: Callable[[], str]) -> None:
        """What may keep it from being ready, asked while it is not: "" or a text for /readyz."""
        self._hindrances.append(source)

    def add_remark(self, source: Callable[[], str]) -> None:
        """What an operator should look at although it is ready: "" or a text for /readyz."""
        self._remarks.append(source)

    # -- the scheduler's verbs ------------------------------------------------------------------------------------

    def filter(self, pod: Pod, nodes: SuggestedNodes) -> FilterAnswer:
        answer = self.ask(FilterRequested(pod, nodes))
        if isinstance(answer, FilterAnswer):
            return answer
        return FilterAnswer(reason=reason(Code.NOT_READY, detail=self._broken), error=True)

    def preempt(self, pod: Pod, candidates: tuple[Candidate, ...]) -> PreemptAnswer:
        answer = self.ask(PreemptRequested(pod, candidates))
        if isinstance(answer, PreemptAnswer):
            return answer
        return PreemptAnswer(reason=reason(Code.NOT_READY, detail=self._broken), error=True)

    def bind(self, namespace: str, name: str, uid: str, node: str) -> Future[BindAnswer]:
        """Completes when the outcome is known, which may take as long as the API server does."""
        request = next(self._requests)
        future: Future[BindAnswer] = Future()
        self._binds[request] = future
        if not self._stopping:
            self.handle(BindRequested(request, namespace, name, uid, node))
        if self._stopping or self._broken:
            self._refuse_binds()
        return future

    def _refuse_binds(self) -> None:
        """Nobody is left waiting for an answer that cannot come any more. A write that is under way goes on."""
        why = reason(Code.NOT_READY, detail=self._broken or "it is shutting down")
        for request in list(self._binds):
            self._complete(BindAnswer(request, why))

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        with self._lock:
            return {} if self._overdue() else self._heart.prioritize(pod, nodes)

    def ask(self, event: _Question) -> Instruction | None:
        """The answer to an event that is answered at once; None from a heart that failed."""
        answer: Instruction | None = None
        commands = []
        for instruction in self._steps((event,)):
            if isinstance(instruction, _Answer):
                answer = instruction
            else:
                commands.append(instruction)
        self._dispatch(commands)
        return answer

    # -- everything else that happens -----------------------------------------------------------------------------

    def handle(self, *events: Event) -> None:
        """Informers' and committer's events, in order. Other events may come in between, never the other way round."""
        for start in range(0, len(events), SLICE):
            self._dispatch(self._steps(events[start : start + SLICE]))

    def _steps(self, events: Sequence[Event]) -> list[Instruction]:
        """Handles some events, all of them at one moment."""
        instructions: list[Instruction] = []
        with self._lock:
            now = self._clock()
            for event in events:
                # No verb is decided by a process that was asleep when its term ended, whatever its threads know.
                if isinstance(event, _VERBS) and (term := self._overdue()):
                    instructions += self._apply(TermEnded(term), now)
                instructions += self._apply(event, now)
            return instructions if self._plan_tick() else []

    def _overdue(self) -> int:
        """The heart's term if it is over; 0 if it lasts, and outside of any."""
        term = self._heart.term
        return term if term and self._fence(term) <= 0 else 0

    def _apply(self, event: Event, now: float) -> list[Instruction]:
        if self._broken:
            return []
        if self._record is not None:
            self._record(event, now)
        try:
            return self._heart.handle(event, now)
        except Exception as error:
            self._failed(error, type(event).__name__)
            return []

    def _failed(self, error: Exception, where: str) -> None:
        self._broken = f"internal error, restart needed: {type(error).__name__}: {error}"
        log.exception("the heart failed", kind=where)
        self._timer_wake.set()  # the timer refuses the binds that wait: not here, under the lock

    def _dispatch(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, BindAnswer):
                self._complete(instruction)
            elif not isinstance(instruction, _Answer):
                self._hand_over(instruction)

    def _hand_over(self, command: Command) -> None:
        """A committer that fails costs this command, not the caller's answer: what is not reported is verified."""
        try:
            self._carry_out(command)
        except Exception:
            log.exception("not carried out", command=type(command).__name__)

    def _complete(self, answer: BindAnswer) -> None:
        future = self._binds.pop(answer.request, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(answer)

    # -- time -----------------------------------------------------------------------------------------------------

    def _plan_tick(self) -> bool:
        """False if the heart cannot say when it is due."""
        try:
            due = self._heart.next_due()
        except Exception as error:
            self._failed(error, "next_due")
            return False
        self._next_tick = float("inf") if due is None else due
        if self._next_tick < self._wakes_at:
            self._timer_wake.set()
        return True

    def _run_timer(self) -> None:
        while not self._stopping:
            self._wakes_at = float("inf")  # whatever is planned from here on wakes it
            wait = self._next_tick - self._clock()
            if self._broken:
                self._refuse_binds()
                wait = float("inf")
            elif wait <= 0:
                self._wakes_at = float("-inf")  # nothing does before SHORTEST_TICK
                self.handle(Ticked())
                self._sleep(SHORTEST_TICK)
                continue
            wait = min(wait, 3600.0)
            self._wakes_at = self._clock() + wait
            self._sleep(wait)

    def _sleep(self, seconds: float) -> None:
        self._timer_wake.wait(seconds)
        self._timer_wake.clear()

    # -- for probes and people ------------------------------------------------------------------------------------

    def liveness(self) -> Readiness:
        return Readiness(not self._broken, self._broken)

    def readiness(self) -> Readiness:
        """Whether verbs are served: it is informed, and leads."""
        return self._unless(self._heart.missing() or ("the term is over" if self._overdue() else ""))

    @property
    def serves(self) -> bool:
        """The same in short, for every answer of a verb."""
        return not (self._broken or self._stopping or self._heart.missing() or self._overdue())

    def informed(self) -> Readiness:
        """Whether nodes and pods are known: it serves, or could lead."""
        return self._unless("" if self._heart.synced else self._heart.missing())

    def _unless(self, missing: str) -> Readiness:
        if self._broken:
            return Readiness(False, self._broken)
        if self._stopping:
            return Readiness(False, "shutting down")
        if not missing:
            return Readiness(True, "; ".join(text for source in self._remarks if (text := source())))
        why = "; ".join(text for source in self._hindrances if (text := source()))
        return Readiness(False, f"{missing}{': ' if why else ''}{why}")

    def pods(self, states: Container[str] | None = None) -> list[PodView]:
        """Every pod that takes room or waits, or those in one of these states, by namespace and name."""
        with self._lock:
            entries = list(self._heart.transitions.roster)
        if states is not None:
            entries = [entry for entry in entries if entry.state.value in states]
        entries.sort(key=lambda entry: entry.key)
        views: list[PodView] = []
        for start in range(0, len(entries), VIEWS):
            with self._lock:  # entries change under it only; a filter call need not wait for all of them
                now = self._clock()
                views += [pod_view(entry, now) for entry in entries[start : start + VIEWS]]
        return views

    def nodes(self) -> list[NodeView]:
        return node_views(self.cache_snapshot())

    def cache_snapshot(self) -> Snapshot:
        with self._lock:
            return self._heart.transitions.cache.snapshot()

    def known(self) -> HandoverVersions | None:
        """What the next leader has to know, once the term is over; None while that can still change."""
        with self._lock:
            return None if self._broken else self._heart.known()

    def beliefs(self) -> CachedState:
        """What is believed of nodes and pods now, for holding it against the API server."""
        with self._lock:
            return beliefs_of(self._heart)

    def algorithm_state(self) -> Mapping[str, Any]:
        with self._lock:
            return self._heart.teller.algorithm.inspect()

    def algorithm_page(self, path: str) -> bytes:
        """A page of the algorithm's own, as JSON. Raises algorithm.interface.NoSuchPage."""
        return b"".join(self.algorithm_pieces(path))

    def algorithm_pieces(self, path: str) -> list[bytes]:
        """The same, in the pieces in which the algorithm gives it; one if it does not."""
        with self._lock:
            page = self._heart.teller.algorithm.page(path)
        if not isinstance(page, Iterator):
            return [msgspec.json.encode(page, enc_hook=str)]
        return list(self._in_turns(page))

    def explain(self, namespace: str, name: str) -> Explanation | None:
        """Why this pod is where it is; None if it is unknown."""
        with self._lock:
            entry = self._heart.find(namespace, name)
            if entry is None:
                return None
            now = self._clock()
            view, why = pod_view(entry, now), reason_of(entry)
            nodes, lines, pod = dict(entry.nodes), list(entry.story), entry.pod
            waits = entry.state in tally.PENDING
        explained, advice = self._advice(pod) if waits else (True, [])
        return Explanation(
            pod=view,
            reason=why,
            nodes=nodes,
            # An algorithm that can say why knows better than a comparison of amounts.
            nearest=[] if explained else nearest(pod, self.nodes()),
            advice=advice,
            story=[f"{now - line.at:.1f}s ago: {line.text}" for line in lines],
        )

    def _advice(self, pod: Pod) -> tuple[bool, list[str]]:
        """Whether the algorithm explains its pods, and what it says; a fault of it must not hide the rest.

        One at a time: however many people ask, kube-scheduler waits for one step of one answer.
        """
        advice: list[str] = []
        try:
            with self._explaining:
                with self._lock:
                    sentences = iter(self._heart.teller.algorithm.explain(pod))
                for sentence in self._in_turns(sentences):
                    advice += [sentence] if sentence else []
        except Exception as error:
            log.exception("explain_failed")
            return False, [f"the algorithm failed to explain: {type(error).__name__}"]
        return bool(advice), advice

    def _in_turns(self, pieces: Iterator[T]) -> Iterator[T]:
        """Each piece is made under the lock, which others have in between."""
        began = time.monotonic()
        while True:
            with self._lock:
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece
            if time.monotonic() - began > _WORK:
                time.sleep(_TURN)
                began = time.monotonic()

    def stats(self) -> list[Metric]:
        """What a scrape sees. Nouns follow kube-scheduler's own metrics."""
        with self._lock:
            counts = dict(self._heart.counts)
            cache = self._heart.transitions.cache.counts()
            gauges = self._heart.teller.metrics()
            faults = self._heart.teller.faults
            entries = list(self._heart.transitions.roster)
        metrics = tally.metrics(counts, cache, entries, faults=faults)
        metrics += [tally.gauge(self._algorithm, each) for each in gauges]
        for source in self._gauges:
            metrics += source()
        return metrics
