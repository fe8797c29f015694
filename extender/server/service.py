"""Wires the server together, except for the HTTP layer: algorithm, engine, informers, committer.

    settings --> algorithm --> engine --> runtime <-- informers (nodes first, then pods)
                                            |
                                            +------> committer

Start-up keeps the order that the algorithm's interface promises: all nodes, then all bound pods, then the rest. Only
then are requests answered. `start` returns at once; readiness reports when start-up is done.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from algorithm.model import Node, Pod
from algorithm.registry import create, gang_texts, reads
from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.kube.informers.decisions import Decisions
from extender.kube.informers.loop_reader import LoopReader
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import nodes_read_by, pods_read_by
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Timing
from extender.kube.informers.room import MemoryBudget
from extender.kube.lease.elector import no_fence
from extender.kube.writes.committer import Committer
from extender.policies import policy_of
from extender.scheduling.bootstrap import by_age
from extender.scheduling.commands import pod_commands
from extender.scheduling.events import Event, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Limits
from extender.scheduling.reads import reads_for
from extender.server.cache_comparer import CacheComparer
from extender.server.ignored_dependencies import IgnoredDependencies
from extender.server.io_metrics import io_metrics
from extender.server.leader_label import LeaderLabeler
from extender.server.leadership import Leadership, own_namespace
from extender.server.recording import RecordTo, attach, recorder_to, recording_metrics
from extender.server.reload import Reconfiguration
from extender.server.replay_hint import not_recorded, recorded_in
from extender.server.runtime import Runtime
from extender.server.silence import ApiSilence
from extender.server.usage import UsageSampler
from extender.settings import LeaderElectionSettings, Settings, SettingsError, algorithm_settings

log = structlog.get_logger(__name__)

#: New objects after which the garbage collector looks at them; Python's own 700 are not those of one decision.
_COLLECT_AFTER = 5000


class Service:
    """One scheduling server without its HTTP layer.

    `config` is the file that the settings are from, which is checked for changes; `record` is where every event is
    recorded; `timing` has the informers' time-outs and `limits` the engine's, their defaults if not given.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        api: ApiServer | None = None,
        config: Path | None = None,
        record: RecordTo | None = None,
        timing: Timing | None = None,
        limits: Limits | None = None,
    ) -> None:
        read = reads(settings.algorithm.name)
        policy = replace(policy_of(settings), claims=read.claims, limits=limits or Limits())
        used = algorithm_settings(settings.algorithm)
        algorithm = create(settings.algorithm.name, used)
        room = MemoryBudget(settings.cluster.cache_mib, lambda: len(self._nodes))
        kept = Decisions(read.decisions, gang_texts(settings.algorithm.name), room.for_decisions())
        self._reader = PodReader(reads_for(read, policy), kept)
        self.api = api or connect(settings.cluster)
        #: Records every event; None: nothing is recorded.
        self.recorder = recorder_to(record, settings.algorithm.name, used, policy) if record else None
        self._leadership = Leadership(self.api, settings.leader_election) if settings.leader_election.enabled else None
        #: The election, for further engines of this process; None: there is none.
        self.leadership = self._leadership
        fence = self._leadership.remaining if self._leadership else no_fence
        self._committer = Committer(
            *(self.api, pod_commands(self._reader.live)),
            report=self._report,
            least=settings.cluster.least_concurrent_writes,
            most=settings.cluster.concurrent_writes,
            fence=fence,
        )
        epoch = self.recorder.epoch if self.recorder is not None else time.time() - time.monotonic()
        machine = SchedulerStateMachine(algorithm, policy, epoch=epoch)
        self.runtime = Runtime(
            machine,
            self._committer.submit,
            record=self.recorder,
            fence=fence,
            algorithm=settings.algorithm.name,
            reader=self._reader,
            hang=settings.server.hang_seconds,
            slow=settings.server.slow_seconds,
            replay=recorded_in(record.folder, self.recorder.file_of) if record and self.recorder else not_recorded,
        )
        self._leader_labeler = self._make_leader_labeler(settings.leader_election)
        self._watch_reader = LoopReader()
        self._nodes = Reflector(
            *(self.api, nodes_read_by(self._reader), self._nodes_changed),
            timing=timing,
            went_back=self._went_back,
            in_loop=self._watch_reader,
            most=room.for_nodes,
        )
        self._pods_buffer = _UntilSynced(self.runtime.handle)
        self._pods = Reflector(
            *(self.api, pods_read_by(self._reader, informer=True), self._pods_changed),
            timing=timing,
            went_back=self._went_back,
            in_loop=self._watch_reader,
            most=room.for_pods,
        )
        if not settings.ordering.enabled:
            ignored = IgnoredDependencies()
            self._pods.add_handler(ignored.look)
            self.runtime.model.add_gauges(ignored.metrics)
        #: Others may add handlers before the start.
        self.nodes = self._nodes
        #: In the order in which they start. Further handlers may be added before `start`.
        self.informers: tuple[Reflector[Any], ...] = (self._nodes, self._pods)
        silence = ApiSilence(self.informers)
        self.runtime.model.api_silence = silence.seconds
        self.runtime.add_readiness_warning(silence.readiness_warning)
        self.runtime.add_not_ready_reason(silence.readiness_warning)
        self.comparer = CacheComparer(self.api, self.runtime, policy, every=settings.cluster.compare_seconds, room=room)
        self.reconfiguration = Reconfiguration(self.runtime, settings, used, config)
        self._usage = UsageSampler(self.runtime.model.usage_sample, self.runtime.model.usage)
        self._stopped = threading.Event()
        self._starter = threading.Thread(target=self._run_start, name="waggle-start", daemon=True)
        self._start_failed = ""
        self.runtime.add_not_ready_reason(self._not_ready_reason)
        self.runtime.model.add_gauges(lambda: io_metrics(self.informers, kept, self.api.refusals, self._committer))
        self.runtime.model.add_gauges(self.comparer.metrics)
        self.runtime.model.add_gauges(self.reconfiguration.metrics)
        self.runtime.add_readiness_warning(self.reconfiguration.readiness_warning)
        self.runtime.add_readiness_warning(self.api.refusals.readiness_warning)
        self.runtime.add_readiness_warning(kept.readiness_warning)
        if (recorder := self.recorder) is not None:
            attach(recorder, machine, self.runtime.loop)
            self.runtime.model.add_gauges(lambda: recording_metrics(recorder))
            self.runtime.add_readiness_warning(lambda: recorder.status.warning)
        if self._leadership:
            self.runtime.model.add_gauges(self._leadership.metrics)
            self.runtime.add_not_ready_reason(self._leadership.why_not_leading)

    def start(self) -> None:
        """Start all threads. Returns at once, before the first lists are complete."""
        # A waiting thread otherwise costs a filter call up to 5 ms each time it meets a busy informer thread.
        sys.setswitchinterval(0.0005)
        self.runtime.start()
        self._starter.start()
        if self._leadership:
            self._leadership.start(self._term_changed, self.runtime.known, self.informers)
        if self._leader_labeler:
            self._leader_labeler.start()
        self.comparer.start()
        self.reconfiguration.start()

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send writes and read watches in this event loop, which is the running one, until `leave_loop`: see
        kube/writes/pilot.py and kube/informers/loop_reader.py."""
        self._committer.enter_loop(loop)
        self._watch_reader.enter_loop(loop)

    def leave_loop(self) -> None:
        """Do both in threads again. Idempotent."""
        self._watch_reader.leave_loop()
        self._committer.leave_loop()

    def end_calls(self) -> None:
        """The server goes down: nothing to do, since every call that waits for a write ends with it."""

    def stop(self) -> None:
        """Let writes in flight finish, and stop every thread. Idempotent; works also without a start."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.reconfiguration.stop()
        if self._leadership:  # decide nothing more, let writes in flight end, and only then let another replica lead
            self._leadership.end_term()
        self._committer.stop()
        if self._leader_labeler:
            self._leader_labeler.stop()
        if self._leadership:
            self._leadership.stop()
        self.comparer.stop()
        self._usage.stop()
        for reflector in self.informers:
            reflector.stop()
        if self._starter.is_alive():
            self._starter.join(timeout=5)
        self.runtime.stop()
        self.api.close()
        if self.recorder is not None:
            self.recorder.close()

    def _make_leader_labeler(self, settings: LeaderElectionSettings) -> LeaderLabeler | None:
        if not (settings.enabled and settings.label_pod):
            return None
        pod = os.environ.get("POD_NAME", "")
        if not pod:
            raise SettingsError("leader_election.label_pod: the environment must have the pod's name in POD_NAME")
        return LeaderLabeler(
            self.api,
            namespace=own_namespace(),
            pod=pod,
            value=settings.name,
            leads=lambda: self.runtime.readiness().ready,
        )

    def _term_changed(self, event: Event) -> None:
        self.runtime.handle(event)
        if self._leader_labeler:
            self._leader_labeler.look()

    # -- informers ------------------------------------------------------------------------------------------------

    def _went_back(self, why: str) -> None:
        """The API server was restored from a backup: versions are not comparable any more, so all state is rebuilt."""
        self.runtime.give_up(f"the API server went back in time: {why}")

    def _not_ready_reason(self) -> str:
        """Return why the server is not ready yet. If the API server does not answer, we keep running and say so."""
        if self._start_failed:
            return self._start_failed
        behind = next((each for each in self.informers if not each.synced.is_set()), None)
        return f"{behind.name}: {behind.last_error}" if behind is not None and behind.last_error else ""

    def _run_start(self) -> None:
        try:
            self._synchronise()
        except Exception as error:
            self._start_failed = f"start failed, restart needed: {error!r}"
            log.exception("start failed")

    def _synchronise(self) -> None:
        for reflector in self.informers:
            if self._stopped.is_set():
                return
            reflector.start()
            while not reflector.wait_synced(0.1):
                if self._stopped.is_set():
                    return
        self._pods_buffer.release()
        self.runtime.handle(Synced())
        if self._leadership:
            self._leadership.informers_ready()
        self._usage.start()
        # The state that was just built lives as long as the process: the garbage collector need not scan it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        log.info("ready", nodes=len(self.runtime.model.nodes()), pods=len(self.runtime.model.pods()))

    def _nodes_changed(self, changes: list[Change[Node]]) -> None:
        for change in changes:
            self._reader.learn(change.obj)
        self.runtime.handle(*(NodeSeen(c.obj) if c.kind is ChangeKind.SEEN else NodeGone(c.obj.name) for c in changes))

    def _pods_changed(self, changes: list[Change[Pod]]) -> None:
        self._pods_buffer(
            *(
                PodSeen(c.obj) if c.kind is ChangeKind.SEEN else PodGone(c.obj.namespace, c.obj.name, c.obj.uid)
                for c in changes
            )
        )

    def _report(self, event: Event) -> None:
        self.runtime.handle(event)


class _UntilSynced:
    """Buffers the events of the first list until it is complete, then passes bound pods on before waiting ones."""

    def __init__(self, handle: Callable[..., None]) -> None:
        self._handle = handle
        self._kept: list[Event] | None = []
        self._lock = threading.Lock()

    def __call__(self, *events: Event) -> None:
        with self._lock:
            if self._kept is not None:
                self._kept += events
                return
        self._handle(*events)

    def release(self) -> None:
        with self._lock:
            kept, self._kept = self._kept or [], None
            self._handle(*sorted(kept, key=_order))


def _order(event: Event) -> tuple[object, ...]:
    """Sort key: bound pods from the oldest on, as whenever state is loaded into an algorithm; then waiting pods."""
    return (not event.pod.node_name, *by_age(event.pod)) if isinstance(event, PodSeen) else (False, "", "", "")
