"""The API server commands of a preemption of our own: evictions, and the annotations on the preemptors."""

from __future__ import annotations

from collections.abc import Iterable

from extender.scheduling.commands import Evict, RecordPreemption
from extender.scheduling.events import Instruction
from extender.scheduling.policy import Policy
from extender.scheduling.state.pod_info import PodInfo, Preemption
from extender.scheduling.state.preemption_record import VictimProgress, written


def evict(
    preemption: Preemption, remaining: Iterable[VictimProgress], policy: Policy, now: float, *, dry_run: bool
) -> list[Instruction]:
    """Return evictions, or their dry runs, of victims without one, and of those without an answer for too long."""
    out: list[Instruction] = []
    for victim in remaining:
        done = victim.allowed if dry_run else victim.evicted
        if done or victim.retry_at > now:
            continue
        victim.retry_at = now + policy.write_timeout
        victim.sent |= not dry_run
        out.append(
            Evict(
                preemption.number,
                victim.key.namespace,
                victim.key.name,
                victim.uid,
                preemption.leader.key,
                dry_run,
                valid_for=policy.write_validity,
            )
        )
    return out


def mark(preemption: Preemption, policy: Policy, now: float) -> list[Instruction]:
    """Return writes of the plan on the preemptors that do not show it yet; again if they do not for too long."""
    if now < preemption.rewrite_at:
        return []
    preemption.rewrite_at = now + policy.write_timeout
    return [
        _annotation(preemption, pod_info, written(preemption.plan, preemption.member_plans[uid]), policy)
        for uid, pod_info in preemption.members.items()
        if uid not in preemption.shown
    ]


def unmark(preemption: Preemption, pod_infos: Iterable[PodInfo], policy: Policy) -> list[Instruction]:
    """Return writes that remove the annotation.

    If one fails, the annotation keeps some room after a restart, until kube-scheduler has asked about the pod.
    """
    return [
        _annotation(preemption, pod_info, "", policy) for pod_info in pod_infos if pod_info.uid in preemption.marked
    ]


def _annotation(preemption: Preemption, pod_info: PodInfo, value: str, policy: Policy) -> RecordPreemption:
    key, valid = pod_info.key, policy.write_validity
    return RecordPreemption(preemption.number, key.namespace, key.name, pod_info.uid, value, valid_for=valid)
