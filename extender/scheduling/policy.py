"""What an operator may decide about the engine, as plain data (`extender.settings` is the file it comes from)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from algorithm.model import Pod, lookup


class PreemptionMode(StrEnum):
    """Who evicts the victims of a preemption."""

    #: kube-scheduler, in answer to its preempt call.
    KUBE_SCHEDULER = "kube-scheduler"
    #: This server, through the Eviction API; preempt is always answered with nobody.
    DIRECT = "direct"
    #: This server where kube-scheduler cannot: for gangs, on several nodes, and where it sees no shortage.
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which pods are ours, how long holds last, and what the server may do by itself. Times in seconds."""

    #: A pod is ours if it meets every criterion that is set; none set: all are.
    scheduler_names: frozenset[str] = frozenset()
    resource: str = ""
    annotation: str = ""
    #: A filter answer holds its place this long; a preemption likewise.
    lease: float = 60.0
    #: Until a verification that failed or was not answered is tried again.
    verify: float = 5.0
    #: How long a write that was sent and not answered may yet arrive: kube-apiserver's --request-timeout.
    arrival: float = 60.0
    #: How long a write may wait to be sent.
    write_validity: float = 20.0
    #: Until we look for ourselves what became of a write or a read that was never reported. Must be longer than a write
    #: may wait and then take, or it could arrive after it was given up.
    write_timeout: float = 60.0
    #: Write the binding after that many filter calls that no bind followed; 0 is never.
    force_bind_after: int = 0
    #: Write the binding at once where the decided node is not among those offered.
    force_bind_unoffered: bool = False
    #: Who evicts.
    preemption: PreemptionMode = PreemptionMode.KUBE_SCHEDULER
    #: How long a preemption of ours may take to begin, and its victims to go beyond their own grace periods.
    patience: float = 120.0
    #: How long a pod that could not be evicted is not tried again, nor a preemption that was given up.
    protection: float = 60.0
    #: Replicas elect a leader: outside a term nothing is decided and nothing written.
    elected: bool = False
    #: How many waiting pods are nudged at once, and how often the same one.
    nudge_batch: int = 50
    #: Annotations that keep room for other pods; `trusted_claims.py` says of which pods they count.
    claims: frozenset[str] = frozenset()
    #: How long an algorithm may keep room for a pod that waits, and that nobody preempts for.
    seat: float = 300.0
    nudge_again: float = 10.0

    def ours(self, pod: Pod) -> bool:
        if self.scheduler_names and pod.scheduler_name not in self.scheduler_names:
            return False
        if self.annotation and lookup(pod.annotations, self.annotation) is None:
            return False
        return not self.resource or _names_resource(pod, self.resource)

    def wants_place(self, pod: Pod) -> bool:
        """Whether this unbound pod waits for a place of ours. An oversized one never has any."""
        return self.ours(pod) and not pod.terminating and not pod.gated and not pod.oversized


def _names_resource(pod: Pod, resource: str) -> bool:
    """As kube-scheduler decides about managedResources: the name alone counts, also with quantity 0."""
    return any(name == resource for name, _ in pod.requests) or any(name == resource for name, _ in pod.limits)
