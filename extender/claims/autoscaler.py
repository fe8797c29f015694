"""Decides how many replicas a pool's workload should have. A pure function of a snapshot.

    coming = desired replicas - existing pods
    unmet  = queued - idle - coming        pods that must be added to serve all requests
    spare  = idle + coming - queued        pods that are left when all requests are served
    demand = claimed + queued

    unmet > 0, or no pod was idle for some time and claims arrived recently  -->  up by unmet + what the buffer lacks
    nothing queued, pods idle for long, more spare pods than the buffer      -->  down by half of the excess

The formula is that of Agent-Sandbox's second autoscaler, with the same lessons:

* `unmet` subtracts pods that are coming. The naive rule "a request waits and no pod is idle" adds the same capacity
  again at every evaluation while pods start; with it, a pool grew to thousands of pods.
* One decision is made for each version of the workload: two evaluations of the same stale cache cannot both shrink it.
* If pods are Unschedulable, the cluster is full: more replicas would only add waiting pods.
* A pod that is Unschedulable never stops coming, so it is deleted first once no request waits.

In mode `detach`, claimed pods are not replicas of the workload, and the ReplicaSet replaces a claimed pod at once: the
new pod counts as coming. In mode `recycle`, claimed pods are replicas, and the workload is never scaled below their
number.

A ReplicaSet that is scaled down chooses the pods to delete itself, and deletes them without preconditions. So the pods
to delete are marked first (`writes.surplus`): with the lowest `controller.kubernetes.io/pod-deletion-cost`, by which
the ReplicaSet chooses them first, and with the annotation because of which no server claims them. Then the workload is
scaled down by the number of marked pods. A claim that is written at the same time wins: it takes the pod out of the
ReplicaSet, or sets a label that the admission policy protects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Buffer(StrEnum):
    """How many spare pods to keep beyond the demand; and the ceiling for all pods together."""

    #: None, and none.
    NONE = "none"
    #: One; the demand + 1.
    ONE = "one"
    #: A quarter of the demand; 1.5 times the demand + 1.
    QUARTER = "quarter"
    #: Half of the demand; twice the demand + 2.
    HALF = "half"


#: By buffer: its share of the demand, its minimum while there is demand, and the ceiling's factor and addend.
_SHARES: Mapping[Buffer, tuple[float, int, float, int]] = {
    Buffer.NONE: (0.0, 0, 1.0, 0),
    Buffer.ONE: (0.0, 1, 1.0, 1),
    Buffer.QUARTER: (0.25, 0, 1.5, 1),
    Buffer.HALF: (0.5, 0, 2.0, 2),
}


#: Seconds within which the watch should show a change of the workload. After that, the change is decided again; if the
#: first one took effect late, the precondition of the second fails.
_DOUBT = 30.0


class ScalePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one pool. Times are seconds."""

    least: int = 0
    most: int
    buffer: Buffer = Buffer.QUARTER
    #: How long a pod must be idle before a scale-down may delete it.
    idle_seconds: float = 300.0
    #: The minimum between two changes, unless requests lack pods.
    cooldown: float = 10.0
    #: The minimum between finding the cluster full and the next scale-up.
    full_cooldown: float = 60.0
    #: How long no pod must have been idle before the buffer is refilled while no request waits.
    empty_seconds: float = 5.0
    #: How long after the last request the pool counts as busy: its buffer is kept.
    quiet_seconds: float = 300.0
    #: How many pods may be added within `refill_seconds`; 0: no limit. The limit protects the cluster, so it also
    #: applies to pods that requests lack. Pods that a ReplicaSet replaces by itself do not count.
    refill_pods: int = 0
    refill_seconds: float = 60.0


class ScaleSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A pool and its workload at one moment."""

    detaches: bool
    #: The workload's resourceVersion, and its spec.replicas.
    version: str
    desired: int
    #: Pods of claims, and pods that are being written for one.
    claimed: int = 0
    #: Pods that the waiting requests lack.
    queued: int = 0
    #: Pods that can be claimed now, and how many of them have been idle for at least `idle_seconds`.
    idle: int = 0
    idle_for_long: int = 0
    #: Pods that no node has room for.
    unschedulable: int = 0
    #: Since when no pod has been idle, seconds of the same clock as `now`; None: some pod is idle.
    empty_since: float | None = None
    #: When the last request for a claim arrived; None: never.
    last_asked: float | None = None


class ScaleMemory(msgspec.Struct, frozen=True):
    """The autoscaler's earlier decisions. Kept in memory only, so a server that starts has none."""

    #: The version of the workload for which the last change was decided.
    version: str = ""
    changed_at: float = -math.inf
    full_until: float = -math.inf
    #: The scale-ups within `refill_seconds`: when, and by how many pods.
    ordered: tuple[tuple[float, int], ...] = ()


class ScaleReason(StrEnum):
    """Why the workload changes, or does not."""

    ENOUGH = "Enough"
    UNMET = "Unmet"
    BUFFER = "Buffer"
    SURPLUS = "Surplus"
    OUT_OF_BOUNDS = "OutOfBounds"
    AT_MAXIMUM = "AtMaximum"
    COOLDOWN = "Cooldown"
    REFILL_LIMIT = "RefillLimit"
    CLUSTER_FULL = "ClusterFull"
    DECIDED = "Decided"


class ScaleDecision(msgspec.Struct, frozen=True):
    """The replicas that the workload should have, which may be those that it has."""

    replicas: int
    reason: ScaleReason
    memory: ScaleMemory


def unmet(snapshot: ScaleSnapshot) -> int:
    """Return how many pods the waiting requests lack beyond those that are coming; never below 0."""
    return max(0, snapshot.queued - snapshot.idle - coming(snapshot))


def coming(snapshot: ScaleSnapshot) -> int:
    """Return how many pods the workload will still create, or that are not ready yet; never below 0."""
    existing = snapshot.idle + (0 if snapshot.detaches else snapshot.claimed)
    return max(0, snapshot.desired - existing)


def buffer(policy: ScalePolicy, snapshot: ScaleSnapshot, now: float) -> int:
    """Return how many spare pods there should be."""
    share, least, _, _ = _SHARES[policy.buffer]
    demand = snapshot.claimed + snapshot.queued
    return max(least if demand or _is_busy(policy, snapshot, now) else 0, math.ceil(share * demand))


def decide(policy: ScalePolicy, snapshot: ScaleSnapshot, memory: ScaleMemory, now: float) -> ScaleDecision:
    """Return the replicas that the workload should have."""
    if snapshot.version and snapshot.version == memory.version and now < memory.changed_at + _DOUBT:
        return ScaleDecision(snapshot.desired, ScaleReason.DECIDED, memory)
    lacking = unmet(snapshot)
    if snapshot.unschedulable and lacking and now >= memory.full_until:
        memory = msgspec.structs.replace(memory, full_until=now + policy.full_cooldown)
    least = max(policy.least, 0 if snapshot.detaches else snapshot.claimed)
    if snapshot.desired < min(least, policy.most):
        return _ordered(policy, snapshot, memory, now, least - snapshot.desired, ScaleReason.OUT_OF_BOUNDS)
    wanted = buffer(policy, snapshot, now)
    spare = snapshot.idle + coming(snapshot) - snapshot.queued
    if lacking:
        return _up(policy, snapshot, memory, now, wanted)
    is_empty = snapshot.empty_since is not None and now - snapshot.empty_since >= policy.empty_seconds
    if spare < wanted and is_empty and _is_busy(policy, snapshot, now):
        if now < memory.changed_at + policy.cooldown:
            return ScaleDecision(snapshot.desired, ScaleReason.COOLDOWN, memory)
        return _up(policy, snapshot, memory, now, wanted)
    return _down(policy, snapshot, memory, now, least, spare - wanted)


def _is_busy(policy: ScalePolicy, snapshot: ScaleSnapshot, now: float) -> bool:
    return snapshot.last_asked is not None and now - snapshot.last_asked < policy.quiet_seconds


def _up(policy: ScalePolicy, snapshot: ScaleSnapshot, memory: ScaleMemory, now: float, wanted: int) -> ScaleDecision:
    lacking = unmet(snapshot)
    spare = max(0, snapshot.idle + coming(snapshot) - snapshot.queued)
    # All pods that requests lack are added at once; the buffer may at most double the workload.
    more = lacking + min(max(0, wanted - spare), max(snapshot.desired, 1))
    _, _, factor, addend = _SHARES[policy.buffer]
    ceiling = math.ceil(factor * (snapshot.claimed + snapshot.queued)) + addend
    others = snapshot.claimed if snapshot.detaches else 0
    more = max(lacking, min(more, ceiling - others - snapshot.desired))
    return _ordered(policy, snapshot, memory, now, more, ScaleReason.UNMET if lacking else ScaleReason.BUFFER)


def _ordered(
    policy: ScalePolicy, snapshot: ScaleSnapshot, memory: ScaleMemory, now: float, more: int, reason: ScaleReason
) -> ScaleDecision:
    if now < memory.full_until:
        return ScaleDecision(snapshot.desired, ScaleReason.CLUSTER_FULL, memory)
    if snapshot.desired + more > policy.most:
        more, reason = policy.most - snapshot.desired, ScaleReason.AT_MAXIMUM
    ordered = tuple(each for each in memory.ordered if each[0] > now - policy.refill_seconds)
    if policy.refill_pods:
        left = policy.refill_pods - sum(number for _, number in ordered)
        if more > left:
            more, reason = left, ScaleReason.REFILL_LIMIT
    if more <= 0:
        return ScaleDecision(snapshot.desired, reason, memory)
    ordered = (*ordered, (now, more)) if policy.refill_pods else ()
    return ScaleDecision(
        snapshot.desired + more, reason, ScaleMemory(snapshot.version, now, memory.full_until, ordered)
    )


def _down(
    policy: ScalePolicy, snapshot: ScaleSnapshot, memory: ScaleMemory, now: float, least: int, surplus: int
) -> ScaleDecision:
    # Idle pods above the maximum are removed at once; other spare pods by half each time.
    above = max(0, snapshot.desired - policy.most)
    may_go = min(surplus, snapshot.idle_for_long + snapshot.unschedulable)
    step = max(min(above, snapshot.idle + snapshot.unschedulable), math.ceil(may_go / 2))
    step = min(step, snapshot.desired - least)
    if snapshot.queued or step <= 0:
        return ScaleDecision(snapshot.desired, ScaleReason.ENOUGH, memory)
    if now < memory.changed_at + policy.cooldown:
        return ScaleDecision(snapshot.desired, ScaleReason.COOLDOWN, memory)
    reason = ScaleReason.OUT_OF_BOUNDS if above else ScaleReason.SURPLUS
    return ScaleDecision(
        snapshot.desired - step, reason, ScaleMemory(snapshot.version, now, memory.full_until, memory.ordered)
    )


def left_over(marked: int, snapshot: ScaleSnapshot, decision: ScaleDecision) -> bool:
    """Whether to clear the marks of an earlier scale-down: `marked` pods cannot be claimed, and nothing will delete
    them. (In Agent-Sandbox such pods stayed hidden forever.)"""
    return marked > 0 and decision.replicas >= snapshot.desired and decision.reason is not ScaleReason.DECIDED
