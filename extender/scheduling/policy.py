"""What the engine decides by, besides events: the operator's choices (`Policy`) and its own constants (`Limits`).

Plain data. `extender.settings` is the file that the choices come from. A recording has both, so that it is replayed
with the values that it was made with, also by a program that has other ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from algorithm.model import Pod, lookup


class PreemptionMode(StrEnum):
    """Who evicts the victims of a preemption."""

    #: kube-scheduler, in answer to its preempt call.
    KUBE_SCHEDULER = "kube-scheduler"
    #: This server, through the Eviction API; the answer to preempt never names victims.
    DIRECT = "direct"
    #: This server where kube-scheduler cannot: for gangs, on several nodes, and where kube-scheduler sees no shortage.
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Constants of the engine. No setting changes them. Times in seconds."""

    #: How far our informer may lag behind kube-scheduler's, and how long we wait for kube-scheduler to ask.
    informer_lag: float = 5.0
    settle: float = 1.0
    #: How long kube-scheduler may take to try a complete gang by itself.
    gather: float = 0.3
    #: When a refused pod for which room is kept is requeued, unless kube-scheduler asks first: after its longest
    #: back-off. 0: it is not requeued.
    unasked: float = 10.0
    #: The interval between two batches of requeued pods.
    requeue_pause: float = 1.0
    #: How long victims that were named to kube-scheduler count as being evicted, although no informer shows it.
    eviction_wait: float = 30.0
    #: The longest part of a victim's grace period, which its author chooses, that is waited for.
    most_grace: float = 3600.0
    #: How often a write of a preemption that was not answered or not accepted is tried before it counts as refused.
    most_tries: int = 5
    #: How often the plan of a preemption is revised.
    most_revisions: int = 8
    #: How many owed changes, of nodes and of pods each, are delivered again before one decision.
    catch_up: int = 16
    #: How many pods that are not managed, and passed a filter, are remembered: their bind may come through us.
    passed_pods: int = 4096
    #: How many unbound pods that do not wait are remembered, each with the resourceVersion that showed it.
    ignored_pods: int = 4096
    #: How many UIDs of pods that are gone are remembered, to recognise late events.
    removed_pods: int = 20_000
    #: How many keys of the wait index that were touched are remembered.
    touched_keys: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which pods are managed, how long holds last, and what the server may do by itself. Times in seconds."""

    #: A pod is managed if it meets every criterion that is set; if none is set, all pods are.
    scheduler_names: frozenset[str] = frozenset()
    resource: str = ""
    annotation: str = ""
    #: The lease of a filter answer's place, and of a preemption.
    lease: float = 60.0
    #: The time until a verification that failed or was not answered is tried again.
    verify: float = 5.0
    #: How long a write that was sent and not answered may still arrive: kube-apiserver's --request-timeout.
    arrival: float = 60.0
    #: How long a write may be queued before it is sent.
    write_validity: float = 20.0
    #: The time until we read the pod ourselves if a write or a read was never reported. Must be longer than a write may
    #: be queued and then take; otherwise the write could arrive after we gave it up.
    write_timeout: float = 60.0
    #: Write the binding after this many filter calls without a bind; 0 is never.
    force_bind_after: int = 0
    #: Write the binding at once if the chosen node is not among the offered ones.
    force_bind_unoffered: bool = False
    #: Who evicts the victims.
    preemption: PreemptionMode = PreemptionMode.KUBE_SCHEDULER
    #: How long a preemption of ours may take to begin, and its victims to go beyond their own grace periods.
    patience: float = 120.0
    #: The back-off of a pod that could not be evicted, and of a preemption that was given up.
    eviction_backoff: float = 60.0
    #: Replicas elect a leader: outside a term nothing is decided and nothing is written.
    elected: bool = False
    #: How many waiting pods are requeued in one batch, and the interval between two requeues of one pod.
    requeue_batch: int = 50
    requeue_interval: float = 10.0
    #: Annotations that keep room for other pods; `trusted_claims.py` says on which pods they are trusted.
    claims: frozenset[str] = frozenset()
    #: How long an algorithm may keep room for a waiting pod without a preemption for it.
    reservation_timeout: float = 300.0
    #: Pods that declare dependencies (`waggle.dev/after`) wait until start-up ordering says that these are met.
    ordering: bool = False
    #: Not the operator's choice.
    limits: Limits = Limits()

    @property
    def manages_all(self) -> bool:
        """Whether no criterion is set."""
        return not (self.scheduler_names or self.resource or self.annotation)

    def manages(self, pod: Pod) -> bool:
        """Whether this server schedules the pod: it meets every criterion that is set."""
        if self.scheduler_names and pod.scheduler_name not in self.scheduler_names:
            return False
        if self.annotation and lookup(pod.annotations, self.annotation) is None:
            return False
        return not self.resource or _names_resource(pod, self.resource)

    def should_schedule(self, pod: Pod) -> bool:
        """Whether this unbound pod waits for a place from us. An oversized pod never gets one."""
        return self.manages(pod) and not pod.terminating and not pod.gated and not pod.oversized


def _names_resource(pod: Pod, resource: str) -> bool:
    """Whether the pod names the resource. As with kube-scheduler's managedResources, quantity 0 counts too."""
    return any(name == resource for name, _ in pod.requests) or any(name == resource for name, _ in pod.limits)
