"""Pods of a plan as the engine of claims reads them."""

from __future__ import annotations

from extender.claims.records import Phase, WarmPod
from extender.claims.writes import names
from extender.plan.records import PlanPod

#: After every time that a pod of the cluster can have: a pod that a plan makes is younger than all of these.
_NEW = 1e14


def warm_pod(pod: PlanPod, *, order: int) -> WarmPod:
    """Return the record. `order`: the pod's number in the plan, which decides where pods have no time of creation.

    The annotations of claims are not part of a plan. A pod with the label of one belongs to it, and is not idle.
    """
    record = pod.pod.pod
    labels = dict(record.labels)
    claim, phase = labels.get(names.CLAIM_LABEL, ""), labels.get(names.PHASE_LABEL, "")
    digits = "".join(filter(str.isdigit, record.created[:19]))
    return WarmPod(
        uid=record.uid,
        namespace=record.namespace,
        name=record.name,
        resource_version=record.resource_version,
        labels=labels,
        node=record.node_name,
        created=float(digits) if digits else _NEW + order,
        is_ready=pod.ready and not record.finished,
        is_terminating=record.terminating,
        is_idle=phase in ("", Phase.IDLE) and not claim,
        owner=str(pod.owner) if pod.owner is not None else "",
        has_phase=names.PHASE_LABEL in labels,
        claim_label=claim,
        phase=phase,
    )
