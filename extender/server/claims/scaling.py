"""Runs the autoscaler: evaluates every pool once a second, and changes the replicas of its workload.

    evaluate --> claims.autoscaler.decide --up----> ScaleWorkload
      ^                                   --down--> MarkSurplus for each pod to delete --> ScaleWorkload by as many
      |                                   --none--> clear the marks that an earlier scale-down left
      +-- every second, and at once when a workload has changed

One replica does all of this: the leader, or the first by name of those that share pools. But only the replica that
received a request knows of it. So every replica adds the pods that its own requests lack, but no spare pods, and it
scales nothing down. The resourceVersion in each write lets only one of several decisions for the same version take
effect; the others are made again, and then count the new pods as coming.
"""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from msgspec import structs

from extender.claims.autoscaler import Buffer, ScaleDecision, ScaleMemory, ScalePolicy, ScaleSnapshot, decide, left_over
from extender.claims.engine import ClaimEngine
from extender.claims.records import Mode, PoolKey, WarmPod
from extender.claims.writes import surplus
from extender.core import scale
from extender.core.outcomes import Outcome, OutcomeKind
from extender.server.claims.runtime import ClaimRuntime
from extender.server.claims.workloads import PLURALS, Workload, Workloads
from extender.server.repeating import RepeatingThread
from extender.server.views import Metric

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0
#: Seconds to wait for the report of a write: longer than any write may take.
_REPORT_SECONDS = 60.0
#: Seconds after which a pod without a node counts as unschedulable.
_UNSCHEDULABLE_SECONDS = 10.0
#: How many pods are marked in one evaluation, at most.
_MOST_MARKS = 500
#: Writes that are sent before others are reported: claims, which share the queue of writes, must not wait behind 500.
_AT_ONCE = 4
#: The kinds of writes, for the committer that carries them out, and their reports.
KINDS = (scale.kind(delays_handover=False), surplus.KIND)
Written = scale.WorkloadScaled | surplus.SurplusMarked


@dataclass(frozen=True, slots=True)
class _View:
    """The engine's state of a pool. `homeless`: pods without a node; `marked`: pods marked for deletion."""

    detaches: bool
    claimed: int
    queued: int
    accepted: int
    idle: tuple[WarmPod, ...]
    homeless: tuple[WarmPod, ...]
    marked: tuple[WarmPod, ...]


@dataclass(slots=True)
class _Track:
    """What is remembered of a pool between two evaluations. Times are seconds of `time.monotonic`."""

    memory: ScaleMemory = field(default_factory=ScaleMemory)
    idle_since: dict[str, float] = field(default_factory=dict)
    homeless_since: dict[str, float] = field(default_factory=dict)
    empty_since: float | None = None
    #: Requests and claimed pods at the last evaluation; None: there was none.
    accepted: int | None = None
    claimed: int = 0
    last_asked: float | None = None
    reason: str = ""
    #: The workload's replicas when it was last seen or written; None: never.
    replicas: int | None = None


class Autoscaler:
    """Scales the workloads of the pools in `policies()`. While `leads()` is false, only for requests of this replica.

    `submit` gets the writes (`KINDS`); their reports go to `written`. The thread starts when a pool is to be scaled.
    """

    def __init__(
        self,
        runtime: ClaimRuntime,
        workloads: Workloads,
        policies: Callable[[], Mapping[PoolKey, ScalePolicy]],
        leads: Callable[[], bool],
        *,
        submit: Callable[[scale.ScaleWorkload | surplus.MarkSurplus], None],
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._submit = submit
        self._runtime = runtime
        self._workloads = workloads
        self._policies = policies
        self._leads = leads
        self._look_seconds = look_seconds
        self._reports: queue.SimpleQueue[Written] = queue.SimpleQueue()
        #: Called with the report of each write, by any thread.
        self.written = self._reports.put
        self._tracks: dict[PoolKey, _Track] = {}
        self._is_leading = False
        self._tokens = 0
        #: Writes by kind and outcome.
        self._counts: Counter[tuple[str, str]] = Counter()
        self._thread = RepeatingThread("waggle-autoscaler", self._turn, pause=look_seconds)
        #: Evaluate all pools at once; and stop the thread.
        self.wake, self.stop = self._thread.wake, self._thread.stop

    def start(self) -> None:
        """Start the thread if a pool is scaled. Idempotent: called again whenever the pools have changed."""
        if self._policies():
            self._thread.start()

    def _turn(self) -> float:
        if self._leads() != self._is_leading:
            self._is_leading = not self._is_leading
            self._tracks.clear()
        policies = self._policies()
        for gone in set(self._tracks) - set(policies):
            del self._tracks[gone]
        for key, policy in policies.items():
            self._look(key, policy)
        return self._look_seconds

    def _look(self, key: PoolKey, policy: ScalePolicy) -> None:
        try:
            workload = self._workloads.find(key)
            if workload is not None and policy.refill_pods:
                self._count_others(self._tracks.setdefault(key, _Track()), policy, workload)
            view = self._runtime.look(lambda engine, _: self._viewed(engine, key))
            if workload is not None and view is not None and not self._thread.stopped:
                self._scale(key, policy, workload, view)
        except Exception:
            log.exception("the autoscaler failed", pool=str(key))

    def _viewed(self, engine: ClaimEngine, key: PoolKey) -> _View | None:
        """Return the engine's state of the pool; None if there is nothing to do."""
        return _view(engine, key) if self._is_leading or _has_unserved(engine, key) else None

    # -- one pool -------------------------------------------------------------------------------------------------

    def _scale(self, key: PoolKey, policy: ScalePolicy, workload: Workload, view: _View) -> None:
        now = time.monotonic()
        track = self._tracks.setdefault(key, _Track())
        snapshot = self._snapshot(track, policy, workload, view, now)
        if not self._is_leading:
            policy = structs.replace(policy, least=0, buffer=Buffer.NONE)
        decision = decide(policy, snapshot, track.memory, now)
        if not self._is_leading and decision.replicas <= snapshot.desired:
            track.memory, track.reason = decision.memory, ""
            return
        if decision.reason != track.reason or decision.replicas != snapshot.desired:
            log.info(
                "autoscaler",
                pool=str(key),
                reason=decision.reason.value,
                replicas=decision.replicas,
                before=snapshot.desired,
                idle=snapshot.idle,
                claimed=snapshot.claimed,
                queued=snapshot.queued,
            )
        track.reason = decision.reason.value
        if decision.replicas > snapshot.desired:
            self._write(key, workload, decision, track, decision.replicas)
        elif decision.replicas < snapshot.desired:
            self._shrink(key, workload, decision, track, view, snapshot.desired - decision.replicas)
        elif left_over(len(view.marked), snapshot, decision):
            self._mark(view.marked[:_MOST_MARKS], clear=True)
            track.memory = decision.memory
        else:
            track.memory = decision.memory

    def _snapshot(
        self, track: _Track, policy: ScalePolicy, workload: Workload, view: _View, now: float
    ) -> ScaleSnapshot:
        track.idle_since = {pod.uid: track.idle_since.get(pod.uid, now) for pod in view.idle}
        track.homeless_since = {pod.uid: track.homeless_since.get(pod.uid, now) for pod in view.homeless}
        if view.idle:
            track.empty_since = None
        elif track.empty_since is None:
            track.empty_since = now
        # A request that another replica received shows only by its pods.
        if track.accepted is not None and (view.accepted != track.accepted or view.claimed > track.claimed):
            track.last_asked = now
        track.accepted, track.claimed = view.accepted, view.claimed
        return ScaleSnapshot(
            detaches=view.detaches,
            version=workload.resource_version,
            desired=workload.replicas,
            claimed=view.claimed,
            queued=view.queued,
            idle=len(view.idle),
            idle_for_long=sum(now - since >= policy.idle_seconds for since in track.idle_since.values()),
            unschedulable=sum(now - since >= _UNSCHEDULABLE_SECONDS for since in track.homeless_since.values()),
            empty_since=track.empty_since,
            last_asked=track.last_asked,
        )

    def _count_others(self, track: _Track, policy: ScalePolicy, workload: Workload) -> None:
        """Count the pods that others have added, such as other replicas, towards `refill_pods`."""
        if workload.resource_version == track.memory.version:
            return  # the own change is not visible yet
        if track.replicas is not None and workload.replicas > track.replicas:
            now = time.monotonic()
            added = (now, workload.replicas - track.replicas)
            recent = (each for each in track.memory.ordered if each[0] > now - policy.refill_seconds)
            track.memory = structs.replace(track.memory, ordered=(*recent, added))
        track.replicas = workload.replicas

    def _shrink(
        self, key: PoolKey, workload: Workload, decision: ScaleDecision, track: _Track, view: _View, step: int
    ) -> None:
        """Mark the pods to delete, first those without a node, then those idle for longest; and scale down."""
        ready = sorted(view.idle, key=lambda pod: track.idle_since[pod.uid])
        chosen = (
            [*view.homeless, *ready][: min(step - len(view.marked), _MOST_MARKS)] if step > len(view.marked) else []
        )
        marked = len(view.marked) + self._mark(chosen)
        if marked:
            self._write(key, workload, decision, track, workload.replicas - min(step, marked))

    def _write(self, key: PoolKey, workload: Workload, decision: ScaleDecision, track: _Track, replicas: int) -> None:
        ref = self._workloads.ref(key)
        if ref is None:
            return
        self._tokens += 1
        command = scale.ScaleWorkload(
            token=self._tokens,
            namespace=ref.namespace,
            name=ref.name,
            replicas=replicas,
            resource_version=workload.resource_version,
            resource=PLURALS[ref.kind],
        )
        (outcome,) = self._carried_out([command])
        if outcome.kind is OutcomeKind.DONE:  # otherwise retry: if the write took effect after all, that is a conflict
            track.memory, track.replicas = decision.memory, replicas
        if outcome.kind is not OutcomeKind.DONE:
            level = log.warning if outcome.kind is OutcomeKind.REJECTED else log.info
            level("workload not scaled", pool=str(key), outcome=outcome.kind.value, detail=outcome.detail)

    def _mark(self, pods: list[WarmPod] | tuple[WarmPod, ...], *, clear: bool = False) -> int:
        """Mark these pods, or clear their marks. Return for how many that succeeded."""
        commands = []
        for pod in pods:
            self._tokens += 1
            commands.append(
                surplus.MarkSurplus(
                    token=self._tokens,
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.uid,
                    clear=clear,
                    has_annotations=pod.has_annotations,
                )
            )
        return sum(outcome.kind is OutcomeKind.DONE for outcome in self._carried_out(commands))

    def _carried_out(self, commands: Sequence[scale.ScaleWorkload | surplus.MarkSurplus]) -> list[Outcome]:
        """Send the commands, and wait for their reports."""
        waiting: dict[int, str] = {}
        outcomes = []
        left = list(reversed(commands))
        end = time.monotonic() + _REPORT_SECONDS
        while (left or waiting) and not self._thread.stopped:
            while left and len(waiting) < _AT_ONCE:
                command = left.pop()
                waiting[command.token] = type(command).__name__
                self._submit(command)
            try:
                report = self._reports.get(timeout=max(0.0, min(0.5, end - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= end:
                    break
                continue
            name = waiting.pop(report.token, None)
            if name is not None:
                outcomes.append(report.outcome)
                self._counts[name, report.outcome.kind.value] += 1
        return outcomes or [Outcome(OutcomeKind.UNKNOWN, "no report") for _ in commands]

    # -- for a scrape ---------------------------------------------------------------------------------------------

    def metrics(self) -> list[Metric]:
        """Return the last decision for each pool, and how the writes ended."""
        reasons = [
            ({"namespace": key.namespace, "pool": key.name, "reason": track.reason}, 1.0)
            for key, track in list(self._tracks.items())
            if track.reason
        ]
        writes = [({"write": name, "outcome": outcome}, float(n)) for (name, outcome), n in list(self._counts.items())]
        return [
            Metric("waggle_autoscaler_reason", "gauge", "The reason of the autoscaler's last decision.", reasons),
            Metric("waggle_autoscaler_writes_total", "counter", "Writes of the autoscaler, by outcome.", writes),
        ]


def _has_unserved(engine: ClaimEngine, key: PoolKey) -> bool:
    """Return whether a request of this replica lacks pods."""
    return any(each.asked.pool == key and each.missing > 0 for each in engine.requests.pending.values())


def _view(engine: ClaimEngine, key: PoolKey) -> _View | None:
    """Return the engine's state of the pool. Takes O(pods of all namespaces)."""
    state = engine.state
    pool = state.pools.get(key)
    if pool is None:
        return None
    idle, homeless, marked = [], [], []
    for uid, pod in state.pods.items():
        if pod.namespace != key.namespace or pod.mark is not None or pod.is_terminating:
            continue
        if uid in pool.supply:
            idle.append(pod)
        elif state.pool_of(pod) is pool:
            if pod.is_surplus:
                marked.append(pod)
            elif not pod.node:
                homeless.append(pod)
    pending = [each for each in engine.requests.pending.values() if each.asked.pool == key]
    counts = engine.requests.counts.get(key)
    claims = [each for each in state.claims.values() if each.pool == key]
    return _View(
        detaches=pool.pool.mode is Mode.DETACH,
        claimed=sum(len(each.uids) for each in claims) + sum(len(each.writing) for each in pending),
        queued=sum(max(0, each.missing) for each in pending),
        accepted=counts.accepted if counts is not None else 0,
        idle=tuple(idle),
        homeless=tuple(homeless),
        marked=tuple(marked),
    )
