"""The stand-in without its sockets: what is heard from the API server comes in, what is to be written comes out.

    informers --- (node|pod|budget)_seen, _gone ------------------------->  +------+
    binds ------- bind_done ---------------------------------------------->  | Core | --> PatchStatus, EmitEvent,
    preemptions - preemption_done ---------------------------------------->  +------+     BindPod, Evict
    the loop ---- tick, next_pod, decide, conclude ------------------------>

One owner calls everything, one call at a time; only the extenders' calls inside `decide` block. `now` is in seconds
and never goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from algorithm.model import PodKey
from extender.embedded.kubescheduler import hints
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.cluster import Cluster
from extender.embedded.kubescheduler.config import SchedulerConfig
from extender.embedded.kubescheduler.cycle import (
    Chosen,
    NoNodes,
    RunAll,
    SchedulingCycle,
    one_after_the_other,
)
from extender.embedded.kubescheduler.diagnosis import Diagnosis
from extender.embedded.kubescheduler.events import ClusterEvent, has_shrunk, node_events, own_events
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError
from extender.embedded.kubescheduler.model import SchedNode, SchedPod, ScheduledCondition
from extender.embedded.kubescheduler.preemption import NotPreempted, Preempted, Preemption
from extender.embedded.kubescheduler.queue import Place, QueuedPod, SchedulingQueue

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


class Result(StrEnum):
    """How an attempt ended."""

    CHOSEN = "chosen"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"
    #: The pod is being deleted: nobody was asked.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `decide` found. `preemption` is set for rejected pods."""

    result: Result
    node: str = ""
    message: str = ""
    diagnosis: Diagnosis | None = None
    preemption: Preempted | NotPreempted | None = None


# -- what is to be written -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write the PodScheduled condition and the nominated node, as far as they are set. Not reported."""

    pod: SchedPod
    condition: ScheduledCondition | None = None
    nominated_node: str | None = None


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """An Event on the pod. Not reported."""

    pod: SchedPod
    reason: str
    action: str
    note: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class BindPod:
    """Bind, in a thread of its own: by the extender, or by ourselves if it is None. Reported by `bind_done`."""

    pod: SchedPod
    node: str
    extender: Extender | None


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete the victims, in a thread of its own. Reported by `preemption_done`."""

    pod: SchedPod
    node: str
    victims: tuple[SchedPod, ...]


Write = PatchStatus | EmitEvent | BindPod | Evict


class Core:
    """Cluster, queue and cycle of one kube-scheduler. `extenders` may come in any order."""

    def __init__(
        self,
        config: SchedulerConfig,
        extenders: Sequence[Extender] = (),
        *,
        now: float,
        run_all: RunAll = one_after_the_other,
    ) -> None:
        self.cluster = Cluster()
        self.queue = SchedulingQueue(
            now=now,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
        )
        self._schedulers = config.scheduler_names
        self._extenders = sorted(extenders, key=lambda extender: extender.config.ignorable)
        random = Random(config.seed)  # noqa: S311 - breaks ties, guards nothing
        self._cycle = SchedulingCycle(config, self.cluster, self._extenders, random=random, run_all=run_all)
        self._budgets: dict[str, Budget] = {}
        self._preemption = Preemption(config, self.cluster, self._extenders, random=random, budgets=self._budgets)
        self._pods: dict[str, SchedPod] = {}
        self._uids: dict[PodKey, str] = {}
        # Victims that are not seen to go yet, by the UID of the pod that waits for them.
        self._going: dict[str, set[str]] = {}

    @property
    def idle(self) -> bool:
        """Nothing is to be tried now, and nothing is being tried or bound."""
        return not any(self.queue.count(place) for place in (Place.ACTIVE, Place.BACKOFF, Place.IN_FLIGHT))

    def forget(self) -> None:
        """Drop what is kept only to be quick: afterwards there is nothing but state."""
        self._cycle.forget()
        self._preemption.forget()
        for extender in self._extenders:
            extender.forget()

    def pod(self, uid: str) -> SchedPod | None:
        """The pod as it was seen last."""
        return self._pods.get(uid)

    # -- nodes --------------------------------------------------------------------------------------------

    def node_seen(self, node: SchedNode, now: float) -> None:
        before = self.cluster.set_node(node)
        for event in [ClusterEvent.NODE_ADD] if before is None else node_events(before, node):
            self.queue.happened(event, now, hint=hints.of_node(event, before, node))

    def node_gone(self, name: str, now: float) -> None:
        if self.cluster.remove_node(name):
            self.queue.happened(ClusterEvent.NODE_DELETE, now)

    # -- budgets: they wake nobody ------------------------------------------------------------------------

    def budget_seen(self, budget: Budget) -> None:
        self._budgets[budget.key] = budget

    def budget_gone(self, key: str) -> None:
        self._budgets.pop(key, None)

    # -- pods ---------------------------------------------------------------------------------------------

    def pod_seen(self, pod: SchedPod, now: float) -> None:
        stale = self._uids.get(pod.key)
        if stale is not None and stale != pod.uid:
            self.pod_gone(stale, now)
        old = self._pods.get(pod.uid)
        if old is not None and old.resource_version == pod.resource_version:
            return
        self._pods[pod.uid], self._uids[pod.key] = pod, pod.uid
        if pod.pod.terminating:
            self._victim_goes(pod.uid, now)
        if pod.pod.finished:
            self._no_room_taken(pod, now)
        elif pod.pod.node_name:
            self._bound(pod, now)
        else:
            self._pending(old, pod, now)

    def pod_gone(self, uid: str, now: float) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        if self._uids.get(pod.key) == uid:
            del self._uids[pod.key]
        self._going.pop(uid, None)
        self._victim_goes(uid, now)
        self._no_room_taken(pod, now)

    def _no_room_taken(self, pod: SchedPod, now: float) -> None:
        """A pod that was deleted or has finished gives back its place, or the one that was nominated for it."""
        self.queue.delete(pod.uid)
        nominated = self.cluster.end_nomination(pod.uid)
        if self.cluster.remove_pod(pod.uid) is not None:
            self.queue.happened(ClusterEvent.ASSIGNED_POD_DELETE, now, hint=hints.of_pod_that_went(pod))
        elif nominated:
            self._nomination_ended(pod, now)

    def _nomination_ended(self, pod: SchedPod, now: float) -> None:
        """Only pods of the same or lower priority had to leave room for it."""
        hint = hints.of_pod_that_went(pod)
        self.queue.happened(ClusterEvent.ASSIGNED_POD_DELETE, now, hint=hint, up_to=pod.priority)

    def _bound(self, pod: SchedPod, now: float) -> None:
        self.queue.delete(pod.uid)
        self.cluster.end_nomination(pod.uid)
        before = self.cluster.set_bound(pod)
        event = ClusterEvent.ASSIGNED_POD_ADD if before is None else ClusterEvent.ASSIGNED_POD_UPDATE
        if before is not None and has_shrunk(before, pod):
            event = ClusterEvent.ASSIGNED_POD_SCALE_DOWN
        self.queue.happened(event, now)

    def _pending(self, old: SchedPod | None, pod: SchedPod, now: float) -> None:
        if pod.pod.scheduler_name not in self._schedulers or pod.pod.gated:
            self.queue.delete(pod.uid)
            self.cluster.end_nomination(pod.uid)
        elif self.cluster.is_assumed(pod.uid):
            if pod.pod.terminating:
                self.cluster.forget(pod.uid)
                self.queue.happened(ClusterEvent.ASSIGNED_POD_DELETE, now, hint=hints.of_pod_that_went(pod))
        else:
            self._nominate(old, pod)
            if old is not None and pod.uid in self.queue:
                self.queue.update(pod, own_events(old, pod), now)
            else:
                self.queue.add(pod, now)
            if old is not None and old.pod.nominated_node_name not in ("", pod.pod.nominated_node_name):
                self._nomination_ended(old, now)

    def _nominate(self, old: SchedPod | None, pod: SchedPod) -> None:
        """What the API server says counts, but a nomination that is not written yet is kept."""
        nominated = pod.pod.nominated_node_name
        if nominated or (old is not None and old.pod.nominated_node_name):
            self.cluster.nominate(pod, nominated)

    # -- attempts -----------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        self.queue.tick(now)

    def next_pod(self) -> QueuedPod | None:
        return self.queue.pop()

    def decide(self, pod: SchedPod) -> Outcome:
        """Filter, score and, if no node is left, preempt. Calls extenders. Raises SchedulerPanic."""
        if pod.pod.terminating:
            return Outcome(Result.SKIPPED, message=f"skip schedule deleting pod: {pod.key}")
        try:
            found = self._cycle.schedule(pod)
        except ExtenderError as error:
            return Outcome(Result.ERROR, message=str(error))
        except NoNodes as error:
            return Outcome(Result.UNSCHEDULABLE, message=str(error))
        if isinstance(found, Chosen):
            return Outcome(Result.CHOSEN, node=found.node)
        preemption = self._preemption.post_filter(pod, found.diagnosis)
        message = found.diagnosis.text()
        if isinstance(preemption, NotPreempted):
            message += f" {preemption.text}"
        return Outcome(Result.UNSCHEDULABLE, message=message, diagnosis=found.diagnosis, preemption=preemption)

    def conclude(self, pod: SchedPod, outcome: Outcome, now: float) -> list[Write]:
        """Make the outcome count: assume the pod, or put it back."""
        if outcome.result is Result.CHOSEN:
            self.cluster.end_nomination(pod.uid)
            self.cluster.assume(pod, outcome.node)
            return [BindPod(pod, outcome.node, self._binder(pod))]
        if outcome.result is Result.SKIPPED:
            self.queue.delete(pod.uid)
            return [EmitEvent(pod, "FailedScheduling", "Scheduling", outcome.message)]
        if outcome.result is Result.ERROR:
            self.queue.failed(pod.uid, now)
            return self._failure(pod, SCHEDULER_ERROR, outcome.message)
        rejecters = outcome.diagnosis.rejecters if outcome.diagnosis else ()
        preempted = outcome.preemption if isinstance(outcome.preemption, Preempted) else None
        if preempted is not None:
            self.queue.hold(pod.uid)
        self.queue.rejected(pod.uid, frozenset(rejecters), now)
        if preempted is not None:
            return self._preempting(pod, outcome.message, preempted)
        cleared = isinstance(outcome.preemption, NotPreempted) and outcome.preemption.clear_nomination
        if cleared:
            self.cluster.end_nomination(pod.uid)
        return self._failure(pod, UNSCHEDULABLE, outcome.message, nominated="" if cleared else None)

    def _binder(self, pod: SchedPod) -> Extender | None:
        return next((e for e in self._extenders if e.config.bind_verb and e.is_interested(pod)), None)

    def _failure(self, pod: SchedPod, reason: str, message: str, *, nominated: str | None = None) -> list[Write]:
        """The Event always; the condition and the nomination only if they change."""
        writes: list[Write] = [EmitEvent(pod, "FailedScheduling", "Scheduling", message)]
        condition = ScheduledCondition("False", reason, message)
        changed = condition if condition != pod.scheduled_condition else None
        if nominated == pod.pod.nominated_node_name:
            nominated = None
        if changed is not None or nominated is not None:
            writes.append(PatchStatus(pod, changed, nominated))
        return writes

    # -- preemption ---------------------------------------------------------------------------------------

    def _preempting(self, pod: SchedPod, message: str, preempted: Preempted) -> list[Write]:
        self.cluster.nominate(pod, preempted.node)
        victims = tuple(victim for victim in preempted.victims if not victim.pod.terminating)
        self._going[pod.uid] = {victim.uid for victim in victims}
        writes = self._failure(pod, UNSCHEDULABLE, message, nominated=preempted.node)
        for other in preempted.demoted:
            self.cluster.end_nomination(other.uid)
            writes.append(PatchStatus(other, nominated_node=""))
        for victim in victims:
            note = f"Preempted by pod {pod.uid} on node {preempted.node}"
            writes.append(EmitEvent(victim, "Preempted", "Preempting", note, warning=False))
        return [*writes, Evict(pod, preempted.node, victims)]

    def preemption_done(self, evict: Evict, deleted: Sequence[str], now: float) -> None:
        """The victims with these UIDs were deleted; fewer than asked for means that a deletion failed."""
        uid, asked = evict.pod.uid, {victim.uid for victim in evict.victims}
        going = self._going.get(uid)
        if going is None or not going <= asked:
            # They have gone, and by now the pod may be waiting for others.
            return
        if not going <= set(deleted):
            del self._going[uid]
            self.queue.activate(uid)
        elif not any(victim in self._pods for victim in going):
            self._release(uid, now)

    def _victim_goes(self, victim: str, now: float) -> None:
        for uid in [uid for uid, going in self._going.items() if victim in going]:
            self._going[uid].discard(victim)
            if not self._going[uid]:
                self._release(uid, now)

    def _release(self, uid: str, now: float) -> None:
        self._going.pop(uid, None)
        self.queue.release(uid, now)

    # -- binds --------------------------------------------------------------------------------------------

    def bind_done(self, pod: SchedPod, node: str, error: str | None, now: float) -> list[Write]:
        """A bind ended, however it did: what the extender said is believed."""
        if error is None:
            self.queue.delete(pod.uid)
            note = f"Successfully assigned {pod.key} to {node}"
            return [EmitEvent(pod, "Scheduled", "Binding", note, warning=False)]
        self.cluster.forget(pod.uid)
        latest = self._pods.get(pod.uid, pod)
        if pod.uid in self.queue:
            self.queue.update(latest, (), now)
        self.queue.failed(pod.uid, now)
        self.queue.happened(ClusterEvent.ASSIGNED_POD_DELETE, now)
        return self._failure(latest, SCHEDULER_ERROR, error)
