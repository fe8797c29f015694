"""The read model: the views of the engine of pods for pages, metrics and the comparer.

The engine's records are read only while its loop is paused, and are copied into plain views. A long answer is made in
pieces, and the loop goes on in between.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from algorithm.interface import InvalidArgument, PageNotFound
from algorithm.model import Pod
from algorithm.reasons import Code
from extender.core.said import type_name
from extender.scheduling.comparison import CachedState, cached_state_of
from extender.scheduling.dependencies import CODES
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.events import Event, Instruction
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.state.cache import Cache, Snapshot
from extender.scheduling.state.consistency import complaint
from extender.scheduling.state.pod_info import HistoryLine, PodInfo, State
from extender.scheduling.state.preemption_log import PreemptionRecord
from extender.server import metrics
from extender.server.guard import SLOW, AlgorithmGuard
from extender.server.loop import EngineLoop, LoopBusy
from extender.server.replay_hint import not_recorded
from extender.server.rows import PLACED, PodRow, PodRows
from extender.server.similar import similar
from extender.server.summary import sentences
from extender.server.usage import UsageHistory, UsageSample, amounts
from extender.server.views import (
    PENDING,
    Explanation,
    FaultsView,
    Metric,
    NodeView,
    PodView,
    nearest,
    node_views,
    pod_view,
)
from extender.server.whatif import SECONDS, Verdict, WhatIf, bounded

T = TypeVar("T")

#: Pods that are proposed to somebody who asked for another.
MOST_SIMILAR = 3
#: How many pods are copied into views during one pause of the loop.
VIEWS = 100
#: Seconds that a scrape waits for the engine: Prometheus gives up after ten, as a rule.
_PATIENCE = 2.0
#: Bytes of a page that an algorithm makes in pieces, and seconds that it may take.
LARGEST_PAGE, LONGEST_PAGE = 256 << 20, 60.0
#: Exceptions that answer a request for a page.
_ANSWERS = (PageNotFound, InvalidArgument)
#: Reasons that a comparison of amounts does not contradict. kube-scheduler's may be others: nobody but it knows.
_ABOUT_AMOUNTS = frozenset(
    {
        Code.INSUFFICIENT,
        Code.TOO_MANY_PODS,
        Code.NODE_LACKS_RESOURCE,
        Code.PREEMPTIBLE,
        Code.NO_NODE_FITS,
        Code.PRIORITY_TOO_LOW,
        Code.UNSCHEDULABLE,
        Code.NOT_ASKED,
        Code.REFUSED_BEFORE,
    }
)
#: Characters that a metric's name cannot have.
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


class ReadModel:
    """Thread-safe. `algorithm` is the name of the algorithm, and the prefix of the names of its metrics; `messages`
    returns what kube-scheduler wrote on a pod without a node, by UID; `replay` how an event is replayed, by its number.
    """

    def __init__(
        self,
        machine: SchedulerStateMachine,
        loop: EngineLoop[Event, Instruction],
        *,
        algorithm: str = "algorithm",
        replay: Callable[[int], str] = not_recorded,
        messages: Callable[[str], str] = lambda _uid: "",
        slow: float = SLOW,
    ) -> None:
        self._machine = machine
        self._loop = loop
        self._name, self._replay = algorithm, replay
        self._algorithm = _NOT_IN_A_NAME.sub("_", algorithm.lower())
        self._messages = messages
        self._explaining = threading.Lock()
        self._guard = AlgorithmGuard(machine.driver, loop, slow=slow)
        self._what_if = WhatIf(machine, loop, self._guard)
        self._gauges: list[Callable[[], Sequence[Metric]]] = []
        #: For how many seconds the API server has been silent; 0.0 while it is heard.
        self.api_silence: Callable[[], float] = lambda: 0.0
        #: Sentences about what a pod waits for that start-up ordering holds back, by namespace and name.
        self.dependencies: Callable[[str, str], Sequence[str]] = lambda _namespace, _name: ()
        #: The time of day, in seconds since 1970.
        self.wall: Callable[[], float] = time.time
        self._rows = PodRows(machine, loop, messages, self._guard)
        #: Use and waiting over the last hour; the service adds a sample every half minute.
        self.usage = UsageHistory()

    def add_gauges(self, source: Callable[[], Sequence[Metric]]) -> None:
        """Add a source of metrics, called at each scrape (the informers' staleness, the committer's queue)."""
        self._gauges.append(source)

    def pods(self, states: Container[str] | None = None, *, patience: float = SECONDS) -> list[PodView]:
        """Return all pods that take room or wait, or those in one of these states, sorted by namespace and name.

        `patience`: seconds for which the algorithm is asked what it would do with those that wait."""
        views = self._each_pod(self._view, states)
        undecided = [view.uid for view in views if view.state == State.WAITING and not _is_held_back(view)]
        found = self._what_if.ask(undecided, patience)
        with self._loop.paused():
            nodes = len(self._machine.driver.nodes)
        return sorted(
            (
                _summarized(view, _sentences(view, found[view.uid], nodes)) if view.uid in found else view
                for view in views
            ),
            key=lambda view: (view.namespace, view.name),
        )

    def _view(self, pod_info: PodInfo, now: float) -> PodView:
        said = self._rows.fields_of(pod_info)
        view = pod_view(pod_info, now, self._messages(pod_info.uid))
        if view.state == State.WAITING and (why := self._machine.dependencies.blocks(pod_info.pod)) is not None:
            view = replace(view, reason=why, summary=why.text)
        return replace(view, gang=said.group, tenant=said.tenant, priority=said.priority, devices=said.devices)

    def _each_pod(
        self, view: Callable[[PodInfo, float], T], states: Container[str] | None = None, *, patience: float = -1
    ) -> list[T]:
        """Return a view of each pod in one of these states. A filter call need not wait for all of them.

        Raises LoopBusy if one piece has to wait for longer than `patience` seconds; -1 waits for ever.
        """

        def pieces() -> Iterator[list[T]]:
            pod_infos = list(self._machine.state.pods)
            for start in range(0, len(pod_infos), VIEWS):
                now = self._loop.clock()
                piece = pod_infos[start : start + VIEWS]
                began = self._guard.began()
                views = [view(pod_info, now) for pod_info in piece if states is None or pod_info.state.value in states]
                self._guard.measured("describe", began)
                yield views

        return [found for piece in self._loop.in_turns(pieces(), patience) for found in piece]

    def rows(self) -> list[PodRow]:
        """Return a lean row for each pod that takes room or waits, in no order."""
        return self._rows.read()

    def usage_sample(self) -> UsageSample:
        """Return the cluster's use at this moment, for `usage`."""
        self._what_if.drop_unused()
        rows = self._rows.read()
        states = Counter(row.state for row in rows)
        return UsageSample(
            at=self.wall(),
            running=states[State.BOUND.value],
            waiting=states[State.WAITING.value],
            preempting=states[State.PREEMPTING.value],
            devices=sum(row.devices for row in rows if row.state in PLACED),
            resources=amounts(self.cache_snapshot()),
        )

    def preemptions(self) -> list[tuple[float, PreemptionRecord]]:
        """Return the last preemptions, oldest first, each with the seconds since it began."""
        with self._loop.paused() as now:
            return [(now - record.at, record) for record in self._machine.state.preemptions.records()]

    def nodes(self) -> list[NodeView]:
        return node_views(self.cache_snapshot())

    def cache_snapshot(self) -> Snapshot:
        with self._loop.paused():
            return self._machine.state.cache.snapshot()

    def read_cache(self, pieces: Callable[[Cache], Iterator[T]], patience: float = -1) -> Iterator[T]:
        """Read the cache in pieces, each under the lock of the loop. Raises LoopBusy, as `EngineLoop.in_turns`."""
        return self._loop.in_turns(pieces(self._machine.state.cache), patience)

    def cached_state(self) -> CachedState:
        """Return the engine's cached state of nodes and pods, for the comparison with the API server."""
        with self._loop.paused():
            return cached_state_of(self._machine)

    def disagreements(self) -> list[str]:
        """Return the pods of which ledger, cache or algorithm know something else than the pod's record says."""
        state = self._machine.state

        def compared(pod_info: PodInfo, _now: float) -> str:
            return complaint(state, pod_info) if state.pods.get(pod_info.uid) is pod_info else ""

        return [text for text in self._each_pod(compared) if text]

    def algorithm_state(self) -> msgspec.Raw:
        """Return the algorithm's own state as a JSON object; an empty one if it fails, which counts as a fault."""
        try:
            with self._loop.paused():
                state = self._guard.held("inspect", self._machine.driver.algorithm.inspect)
            encoded = self._guard.free("inspect", lambda: msgspec.json.encode(state, enc_hook=str))
            if not encoded.startswith(b"{"):
                raise self._guard.breached("inspect", "inspect returned no mapping")
        except AlgorithmFault:
            return msgspec.Raw(b"{}")
        return msgspec.Raw(encoded)

    def algorithm_faults(self) -> FaultsView:
        """Return what the algorithm did wrong."""
        driver = self._machine.driver
        with self._loop.paused() as now:
            book = driver.fault_log
            return FaultsView(
                book.total,
                book.last,
                now,
                tuple(sorted(driver.unknown_nodes)),
                counts=dict(book.totals),
                last_of=dict(book.last_of),
                replay=self._replay,
            )

    def algorithm_page(self, path: str) -> bytes:
        """Return one of the algorithm's own pages, as a line of JSON. Raises PageNotFound, InvalidArgument."""
        return b"".join((*self.algorithm_pieces(path), b"\n"))

    def algorithm_pieces(self, path: str) -> list[bytes]:
        """Return the same page in the pieces that the algorithm yields; in one piece if it yields none.

        Raises PageNotFound, InvalidArgument; AlgorithmFault for anything else, which is noted.
        """

        def asked() -> tuple[Any, bool]:
            page = self._machine.driver.algorithm.page(path)
            return page, isinstance(page, Iterator)

        with self._loop.paused():
            page, in_pieces = self._guard.held("page", asked, passes=_ANSWERS)
        if not in_pieces:
            return [self._guard.free("page", lambda: msgspec.json.encode(page, enc_hook=str))]
        pieces: list[bytes] = []
        size, end = 0, time.monotonic() + LONGEST_PAGE
        # A piece that is None would look like the end.
        for (piece,) in self._loop.in_turns(zip(self._guard.steps("page", lambda: page, passes=_ANSWERS))):
            if not isinstance(piece, bytes):
                raise self._guard.breached("page", f"page yielded {type_name(piece)}, not bytes")
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_PAGE or time.monotonic() > end:
                most = f"{LARGEST_PAGE >> 20} MiB, made in {LONGEST_PAGE:g} s"
                raise self._guard.breached("page", f"page yielded without end; expected at most {most}")
        return pieces

    def explain(self, namespace: str, name: str) -> Explanation | None:
        """Return why this pod is where it is; None if it is unknown."""
        with self._loop.paused() as now:
            pod_info = self._machine.find(namespace, name)
            if pod_info is None:
                return None
            view = self._view(pod_info, now)
            nodes, lines, pod = dict(pod_info.nodes), list(pod_info.history), pod_info.pod
            waits = pod_info.state in PENDING
            known = len(self._machine.driver.nodes)
        if waits and _is_held_back(view):  # it waits for others, whatever the algorithm would say
            said = list(self.dependencies(namespace, name))
            view = replace(view, summary=next(iter(said), view.summary))
            return Explanation(pod=view, reason=view.reason, advice=said, story=_history(lines, now))
        if not waits:
            return Explanation(pod=view, reason=view.reason, nodes=nodes, story=_history(lines, now))
        verdict = self._what_if.ask_one(pod.uid)
        if verdict is None:  # of a pod that is newer than the copy, nothing is known yet
            verdict = Verdict() if self._what_if.possible else self._live_verdict(pod)
        is_waiting = view.state == State.WAITING
        said = _sentences(view, verdict, known) if is_waiting else list(verdict.sentences)
        shown = _summarized(view, said) if is_waiting else view
        if verdict.fault:
            said.append(f"the algorithm failed to explain: {verdict.fault}")
        return Explanation(
            pod=shown,
            reason=view.reason,
            nodes=nodes,
            nearest=nearest(pod, self.nodes()) if _lacks_amounts(view, verdict) else [],
            advice=said,
            node_if_asked=verdict.node,
            reason_if_asked=verdict.reason,
            story=_history(lines, now),
        )

    def similar_pods(self, namespace: str, name: str) -> list[str]:
        """Return pods that somebody may have meant who asked for one that does not exist: namespace/name."""
        with self._loop.paused():
            keys = self._machine.state.pods.keys()
        elsewhere = [f"{key.namespace}/{name}" for key in keys if key.name == name][:MOST_SIMILAR]
        here = similar(name, (key.name for key in keys if key.namespace == namespace))
        return [*elsewhere, *(f"{namespace}/{each}" for each in here)][:MOST_SIMILAR]

    def _live_verdict(self, pod: Pod) -> Verdict:
        """The explanation of an algorithm that cannot be copied, by itself. A fault of it must not hide the rest.

        One explanation at a time: for any number of requests, kube-scheduler waits for one step of one answer.
        """
        advice: list[str] = []
        explained = self._guard.steps("explain", lambda: bounded(self._machine.driver.algorithm.explain(pod)), pod)
        try:
            with self._explaining:
                for sentence in self._loop.in_turns(explained):
                    advice += [sentence] if sentence else []
        except AlgorithmFault as fault:
            return Verdict(fault=str(fault))
        return Verdict(sentences=tuple(advice))

    def _pod_status(self, pod_info: PodInfo, _now: float) -> metrics.PodStatus:
        return metrics.pod_status(pod_info, self._messages(pod_info.uid))

    def stats(self) -> list[Metric]:
        """Return all metrics for a scrape. Nouns follow kube-scheduler's own metrics.

        Those of the engine are missing while it is busy for longer than a scrape can wait: the others say that it is.
        """
        try:
            shown = self._engine_stats()
        except LoopBusy:
            shown = []
        for source in self._gauges:
            shown += source()
        return shown

    def _engine_stats(self) -> list[Metric]:
        with self._loop.paused(_PATIENCE):
            counts = dict(self._machine.counts)
            cache = self._machine.state.cache.counts()
            began = self._guard.began()
            gauges = self._machine.driver.metrics()
            self._guard.measured("metrics", began)
            faults = dict(self._machine.driver.fault_log.totals)
        pods = self._each_pod(self._pod_status, patience=_PATIENCE)
        shown = metrics.metrics(counts, cache, pods, algorithm=self._name, faults=faults)
        shown.append(
            Metric(
                "waggle_unseen_offers_dropped_total",
                "counter",
                "Offers dropped of pods that only kube-scheduler has named, since they took too much memory.",
                [({}, float(counts.get(("offers", "dropped"), 0)))],
            )
        )
        return shown + [metrics.gauge(self._algorithm, each) for each in gauges]


def _is_held_back(view: PodView) -> bool:
    """Whether start-up ordering keeps the pod waiting."""
    return view.reason is not None and view.reason.code in CODES


def _lacks_amounts(view: PodView, verdict: Verdict) -> bool:
    """Whether a comparison of amounts may say why the pod waits. It knows nothing of gangs, nor of what else an
    algorithm refuses for: it would contradict its reason, or what it explains."""
    if verdict.sentences or verdict.node or view.gang:
        return False
    why = verdict.reason or view.reason
    return why is None or why.code in _ABOUT_AMOUNTS


def _sentences(view: PodView, verdict: Verdict | None, nodes: int) -> list[str]:
    return [] if view.reason is None else sentences(view, verdict, nodes)


def _summarized(view: PodView, said: Sequence[str]) -> PodView:
    return replace(view, summary=said[0]) if said else view


def _history(lines: Sequence[HistoryLine], now: float) -> list[str]:
    return [f"{now - line.at:.1f}s ago, event {line.event}: {line.text}" for line in lines]
