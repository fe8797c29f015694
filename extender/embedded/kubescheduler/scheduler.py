"""The stand-in with its sockets: informers, the one scheduling loop, a thread for each bind and each preemption.

    reflectors --+                              +--> status patches (in the loop, as in the real one)
    bind threads +--> inbox --> loop --> Core --+--> bind and preemption threads --> inbox
    wait_idle ---+                              +--> event recorder

The loop's thread owns the Core: everything that happens comes through the inbox, one after the other. What arrives
during an attempt is handled right after it, which to a waiting pod is the same as the real one's in-flight events.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import msgspec
import structlog

from algorithm.model import PodKey
from extender.embedded.kubescheduler.budgets import Budget, decode_budget
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.core import BindPod, Core, EmitEvent, Evict, Outcome, PatchStatus, Write
from extender.embedded.kubescheduler.cycle import Scores
from extender.embedded.kubescheduler.extender_client import Call, HttpExtender
from extender.embedded.kubescheduler.extenders import ExtenderError, SchedulerPanic
from extender.embedded.kubescheduler.model import SchedNode, SchedPod, decode_node, decode_pod
from extender.embedded.kubescheduler.preemption import Preempted
from extender.embedded.kubescheduler.queue import QueuedPod
from extender.embedded.kubescheduler.writer import ApiWriter, EventRecorder
from extender.kube.client.api import ApiError, ApiServer
from extender.kube.informers import envelopes as wire
from extender.kube.informers.reflector import Change, ChangeKind, Reflector, Resource

log = structlog.get_logger(__name__)

_REMEMBERED = 100_000
_PROBE_INTERVAL = 0.02

PODS: Resource[SchedPod] = Resource("pods", decode_pod, lambda pod: str(pod.key))
BUDGETS: Resource[Budget] = Resource("poddisruptionbudgets", decode_budget, lambda budget: budget.key, group="policy")
NODES: Resource[SchedNode] = Resource("nodes", decode_node, lambda node: node.name)


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One scheduling attempt: what was asked and how it ended. `result` is chosen, unschedulable, error or skipped."""

    #: Wall clock, in seconds, and the seconds that it took.
    time: float
    duration: float
    pod: PodKey
    uid: str
    number: int
    result: str
    node: str
    message: str
    calls: tuple[Call, ...]
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BindRecord:
    """One bind. `by` is the extender's URL, or "" for the default binder; `error` None is success."""

    time: float
    pod: PodKey
    uid: str
    node: str
    by: str
    error: str | None


Record = AttemptRecord | BindRecord


@dataclass(frozen=True, slots=True)
class _Bound:
    write: BindPod
    error: str | None


@dataclass(frozen=True, slots=True)
class _Evicted:
    write: Evict
    deleted: list[str]


@dataclass(slots=True)
class _Probe:
    """Is everything done that follows from these objects (UID to resourceVersion)?

    `activity` is the loop's counter from before they were read: if it has moved since, they may be older than our own
    writes.
    """

    objects: dict[str, str]
    activity: int
    answered: threading.Event = field(default_factory=threading.Event)
    answer: bool = False


_Message = list[Change[SchedPod]] | list[Change[SchedNode]] | list[Change[Budget]] | _Bound | _Evicted | _Probe | None


class KubeSchedulerStandIn:
    """A kube-scheduler for the API server `api`. `on_record` hears of every attempt and bind, on our threads."""

    def __init__(
        self, api: ApiServer, config: SchedulerConfig, *, on_record: Callable[[Record], None] | None = None
    ) -> None:
        self._api = api
        self._inbox: SimpleQueue[_Message] = SimpleQueue()
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._records: deque[Record] = deque(maxlen=_REMEMBERED)
        self._on_record = on_record
        self._extenders = [HttpExtender(extender, on_call=self._called) for extender in config.extenders]
        self._prioritizers = ThreadPoolExecutor(max(len(config.extenders), 1), "scheduler-prioritize")
        self._core = Core(config, self._extenders, now=time.monotonic(), run_all=self._at_the_same_time)
        self._seen: dict[str, str] = {}
        self._activity = 0
        self._writer = ApiWriter(api)
        self._recorder = EventRecorder(self._writer)
        self._reflectors = (
            Reflector(api, NODES, self._inbox.put),
            Reflector(api, BUDGETS, self._inbox.put),
            Reflector(api, PODS, self._inbox.put),
        )
        self._tasks: set[threading.Thread] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler-loop", daemon=True)
        self._crashed = ""

    # -- from any thread ----------------------------------------------------------------------------------

    def start(self) -> None:
        self._recorder.start()
        for reflector in self._reflectors:
            reflector.start()
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End all threads. An attempt or bind under way is waited for, at most `timeout` seconds each."""
        self._stop.set()
        self._inbox.put(None)
        for reflector in self._reflectors:
            reflector.stop()
        for thread in (self._thread, *self._tasks):
            if thread.is_alive():
                thread.join(timeout)
        self._recorder.stop(timeout)
        self._prioritizers.shutdown()
        for extender in self._extenders:
            extender.close()

    @property
    def crashed(self) -> str:
        """Why the loop ended by itself ("" if it did not): an answer on which the real one panics, or a bug."""
        return self._crashed

    def wait_synced(self, timeout: float) -> bool:
        """Whether nodes, budgets and pods are known within `timeout` seconds."""
        return all(reflector.wait_synced(timeout) for reflector in self._reflectors)

    @property
    def records(self) -> list[Record]:
        """Attempts and binds so far, in the order in which they ended; the oldest are forgotten after 100,000."""
        with self._lock:
            return list(self._records)

    def attempts(self, pod: str = "") -> list[AttemptRecord]:
        """All attempts, or those of one pod ("namespace/name")."""
        return [r for r in self.records if isinstance(r, AttemptRecord) and pod in ("", str(r.pod))]

    def binds(self) -> list[BindRecord]:
        return [record for record in self.records if isinstance(record, BindRecord)]

    def wait_idle(self, timeout: float) -> bool:
        """Whether, within `timeout` seconds, all that the API server holds is taken in and nothing is to be done.

        Rejected pods that wait for an event, and pods in error back-off, do not count as work.
        """
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0 and not self._crashed:
            probe = self._probe()
            if probe is not None:
                self._inbox.put(probe)
                if probe.answered.wait(left) and probe.answer:
                    return True
            self._stop.wait(_PROBE_INTERVAL)
        return False

    def _probe(self) -> _Probe | None:
        objects: dict[str, str] = {}
        activity = self._activity
        try:
            for resource in (NODES.path, BUDGETS.path, PODS.path):
                response = self._api.request("GET", resource)
                if not response.ok:
                    return None
                identities = map(wire.identify, wire.decode_page(response.body).items or ())
                objects |= {identity.uid: identity.resource_version for identity in identities}
        except (ApiError, msgspec.DecodeError):
            return None
        return _Probe(objects, activity)

    # -- the loop -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._synced():
                self._loop()
        except SchedulerPanic as panic:
            self._crashed = f"kube-scheduler would panic: {panic}"
            log.error("scheduler panics", error=str(panic))  # noqa: TRY400 - the answer is at fault, not our stack
        except Exception as error:
            self._crashed = repr(error)
            log.exception("scheduler loop ended")

    def _synced(self) -> bool:
        while not self._stop.is_set():
            if all(reflector.wait_synced(0.1) for reflector in self._reflectors):
                return True
        return False

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._drain()
            now = time.monotonic()
            self._core.tick(now)
            queued = self._core.next_pod()
            if queued is not None:
                self._attempt(queued)
            else:
                self._wait(self._core.queue.next_tick() - now)

    def _drain(self) -> None:
        while not self._inbox.empty():
            self._handle(self._inbox.get())

    def _wait(self, seconds: float) -> None:
        try:
            self._handle(self._inbox.get(timeout=None if math.isinf(seconds) else max(seconds, 0.0)))
        except Empty:
            return

    def _handle(self, message: _Message) -> None:
        now = time.monotonic()
        match message:
            case list():
                for change in message:
                    self._changed(change, now)
            case _Bound(write, error):
                self._carry_out(self._core.bind_done(write.pod, write.node, error, now))
            case _Evicted(write, deleted):
                self._core.preemption_done(write, deleted, now)
                self._activity += 1
            case _Probe():
                quiet = self._idle() and message.activity == self._activity
                message.answer = quiet and message.objects == self._seen
                message.answered.set()

    def _changed(self, change: Change[SchedPod] | Change[SchedNode] | Change[Budget], now: float) -> None:
        obj, gone = change.obj, change.kind is ChangeKind.GONE
        if gone:
            self._seen.pop(obj.uid, None)
        else:
            self._seen[obj.uid] = obj.resource_version
        if isinstance(obj, SchedNode):
            if gone:
                self._core.node_gone(obj.name, now)
            else:
                self._core.node_seen(obj, now)
        elif isinstance(obj, Budget):
            if gone:
                self._core.budget_gone(obj.key)
            else:
                self._core.budget_seen(obj)
        elif gone:
            self._core.pod_gone(obj.uid, now)
        else:
            self._core.pod_seen(obj, now)

    def _idle(self) -> bool:
        self._tasks = {task for task in self._tasks if task.is_alive()}
        return self._core.idle and not self._tasks and self._inbox.empty()

    # -- attempts -----------------------------------------------------------------------------------------

    def _attempt(self, queued: QueuedPod) -> None:
        pod, started, began = queued.pod, time.time(), time.monotonic()
        with self._lock:
            self._calls = []
        outcome = self._core.decide(pod)
        now = time.monotonic()
        writes = self._core.conclude(pod, outcome, now)
        self._record(self._attempt_record(queued, outcome, started, now - began))
        self._carry_out(writes)

    def _attempt_record(self, queued: QueuedPod, outcome: Outcome, started: float, duration: float) -> AttemptRecord:
        preempted = outcome.preemption if isinstance(outcome.preemption, Preempted) else None
        with self._lock:
            calls = tuple(self._calls)
        return AttemptRecord(
            time=started,
            duration=duration,
            pod=queued.pod.key,
            uid=queued.pod.uid,
            number=queued.attempts,
            result=outcome.result.value,
            node=preempted.node if preempted else outcome.node,
            message=outcome.message,
            calls=calls,
            victims=tuple(victim.uid for victim in preempted.victims) if preempted else (),
        )

    def _record(self, record: Record) -> None:
        with self._lock:
            self._records.append(record)
        if self._on_record is not None:
            self._on_record(record)

    def _called(self, call: Call) -> None:
        if call.kind != "bind":
            with self._lock:
                self._calls.append(call)

    def _at_the_same_time(self, calls: Sequence[Callable[[], Scores]]) -> list[Scores]:
        if len(calls) < 2:
            return [call() for call in calls]
        return list(self._prioritizers.map(lambda call: call(), calls))

    # -- writes -------------------------------------------------------------------------------------------

    def _carry_out(self, writes: Sequence[Write]) -> None:
        for write in writes:
            match write:
                case PatchStatus():
                    self._writer.patch_status(write)
                case EmitEvent():
                    self._recorder.record(write)
                case BindPod():
                    self._spawn(self._bind, write)
                case Evict():
                    self._spawn(self._evict, write)
        self._activity += 1

    def _spawn(self, task: Callable[..., None], write: BindPod | Evict) -> None:
        self._tasks = {task for task in self._tasks if task.is_alive()}
        thread = threading.Thread(target=task, args=(write,), name=f"scheduler-{write.pod.key}", daemon=True)
        self._tasks.add(thread)
        thread.start()

    def _bind(self, write: BindPod) -> None:
        extender, error, by = write.extender, None, ""
        if extender is None:
            error = self._writer.bind(write.pod, write.node)
        else:
            by = extender.config.url
            try:
                extender.bind(write.pod, write.node)
            except ExtenderError as failure:
                error = str(failure)
                if extender.config.ignorable:
                    error, by = self._writer.bind(write.pod, write.node), ""
        self._record(BindRecord(time.time(), write.pod.key, write.pod.uid, write.node, by, error))
        self._inbox.put(_Bound(write, error))

    def _evict(self, write: Evict) -> None:
        self._inbox.put(_Evicted(write, self._writer.delete_victims(write.pod, write.victims)))
