"""Decides how many replicas the workload has that makes a pool's pods. A pure function over a snapshot.

    unmet  = queued - idle - coming        pods that nobody has ordered yet        (coming = desired - what exists)
    spare  = idle + coming - queued        pods that are left when all are served
    demand = claimed + queued

    unmet > 0, or no pod was idle for a while and claims came lately  -->  up by unmet + what the buffer lacks
    nothing queued, pods idle for long, more spare than the buffer    -->  down by half of what is too much

The source of the formula is Agent-Sandbox's second autoscaler, and so are its lessons:

* `unmet` counts what is coming. The raw test "somebody waits and nothing is idle" orders the same capacity again at
  each look while pods start, and ran a pool into the thousands.
* A decision is made once for each version of the workload. Two looks at the same stale cache cannot both shrink it.
* When pods are Unschedulable the cluster is full: more replicas would only be more pods that wait.
* A pod that is Unschedulable is coming for ever, so it is the first to go once nobody waits.

In a pool that detaches, claimed pods are no replicas of the workload any more, and the ReplicaSet replaces a claimed
pod by itself: it is coming as soon as it is missing. In a pool that recycles, claimed pods are replicas, and the
workload is never smaller than their number.

How the victims are chosen: a smaller ReplicaSet deletes pods of its own choice, without preconditions. So the pods
that may go are marked first (`writes.surplus`): with the lowest `controller.kubernetes.io/pod-deletion-cost`, which
makes them the ReplicaSet's first choice, and with the annotation that keeps every server from offering them. The
workload then shrinks by as many as were marked. A claim that is written meanwhile wins: it takes the pod out of the
ReplicaSet, or has a label that the admission policy protects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Buffer(StrEnum):
    """Spare pods beyond the demand, and how far all pods together may exceed it."""

    #: None, and none.
    NONE = "none"
    #: One; the demand + 1.
    ONE = "one"
    #: A quarter of the demand; 1.5 times the demand + 1.
    QUARTER = "quarter"
    #: Half of the demand; twice the demand + 2.
    HALF = "half"


#: By buffer: its share of the demand, what it is at least while somebody asks, and the ceiling's factor and addend.
_SHARES: Mapping[Buffer, tuple[float, int, float, int]] = {
    Buffer.NONE: (0.0, 0, 1.0, 0),
    Buffer.ONE: (0.0, 1, 1.0, 1),
    Buffer.QUARTER: (0.25, 0, 1.5, 1),
    Buffer.HALF: (0.5, 0, 2.0, 2),
}


#: Seconds in which the cluster should show that the workload was changed. After that the change is decided again; if
#: the first one has happened after all, the precondition of the second fails.
_DOUBT = 30.0


class ScalePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one pool. Times are seconds."""

    least: int = 0
    most: int
    buffer: Buffer = Buffer.QUARTER
    #: How long a pod is idle before it may go.
    idle_seconds: float = 300.0
    #: Between two changes, unless requests lack pods.
    cooldown: float = 10.0
    #: Until the next try after the cluster was full.
    full_cooldown: float = 60.0
    #: For so long no pod was idle before the buffer is filled although nobody waits.
    empty_seconds: float = 5.0
    #: Claims that came within this time count as "lately".
    quiet_seconds: float = 300.0
    #: At most so many new pods are ordered within `refill_seconds`; 0: any number. It also limits what requests lack:
    #: it is there to protect the cluster. What a ReplicaSet replaces by itself is not ordered.
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
    #: Pods that requests in line lack.
    queued: int = 0
    #: Pods that can be claimed now, and those of them that have been idle for at least `idle_seconds`.
    idle: int = 0
    idle_for_long: int = 0
    #: Pods that do not start because no node has room for them.
    unschedulable: int = 0
    #: Since when no pod is idle, seconds of the same clock as `now`; None: one is.
    empty_since: float | None = None
    #: When a claim was asked for last; None: never.
    last_asked: float | None = None


class ScaleMemory(msgspec.Struct, frozen=True):
    """What the autoscaler remembers of its own decisions. A server that starts remembers nothing."""

    #: The version of the workload that the last change was decided for.
    version: str = ""
    changed_at: float = -math.inf
    full_until: float = -math.inf
    #: When how many pods were ordered.
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
    """The replicas that the workload should have: those that it has, or others."""

    replicas: int
    reason: ScaleReason
    memory: ScaleMemory


def unmet(snapshot: ScaleSnapshot) -> int:
    """Pods that requests lack and that are not coming; never below 0."""
    return max(0, snapshot.queued - snapshot.idle - coming(snapshot))


def coming(snapshot: ScaleSnapshot) -> int:
    """Pods that the workload will still make, or that return from use; never below 0."""
    existing = snapshot.idle + (0 if snapshot.detaches else snapshot.claimed)
    return max(0, snapshot.desired - existing)


def buffer(policy: ScalePolicy, snapshot: ScaleSnapshot, now: float) -> int:
    """How many spare pods there should be."""
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
    # The buffer at most doubles the workload at once; what requests lack is ordered whole.
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
    # What is above the maximum goes at once, as far as it is idle; the rest by halves.
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
    """Whether the marks of an earlier scale-down are to be cleared: `marked` pods are kept from requests, and nothing
    will delete them. (Agent-Sandbox had such pods hidden for good.)"""
    return marked > 0 and decision.replicas >= snapshot.desired and decision.reason is not ScaleReason.DECIDED
