"""Pods of a plan as the engine of claims reads them."""

from __future__ import annotations

from msgspec.structs import replace

from algorithm.model import pairs
from extender.claims.records import Phase, WarmPod
from extender.claims.writes import names
from extender.plan.records import PlanPod
from extender.plan.run.engines.pools import FOR_EVER

#: After every time that a pod of the cluster can have: a pod that a plan makes is younger than all of these.
_NEW = 1e14


def warm_pod(pod: PlanPod, *, order: int) -> WarmPod:
    """Return the record. `order`: the pod's number in the plan, which decides where pods have no time of creation.

    Claims that have pods already last to the end of the plan. A pod with the label of a claim is not idle, even if its
    mark cannot be read.
    """
    record = pod.pod.pod
    labels = dict(record.labels)
    claim, phase = labels.get(names.CLAIM_LABEL, ""), labels.get(names.PHASE_LABEL, "")
    annotations = dict(record.annotations)
    mark = names.mark_of(annotations) if claim else None
    if mark is not None and (mark.claim != claim or phase == Phase.STOPPING):
        mark = None
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
        is_surplus=names.SURPLUS_ANNOTATION in annotations,
        mark=None if mark is None else replace(mark, expires=FOR_EVER),
        mark_text=annotations.get(names.CLAIM_ANNOTATION, "") if mark is not None else "",
        has_phase=names.PHASE_LABEL in labels,
        claim_label=claim,
        phase=phase,
    )


def unclaimed(pod: PlanPod) -> PlanPod:
    """Return the pod as its workload makes it: without what a claim has written on it."""
    record = pod.pod.pod
    labels = dict(record.labels)
    if names.CLAIM_LABEL not in labels:
        return pod
    mark = names.mark_of(dict(record.annotations))
    for name, before in mark.labels if mark is not None else ():
        if before is None:
            labels.pop(name, None)
        else:
            labels[name] = before
    del labels[names.CLAIM_LABEL]
    if names.PHASE_LABEL in labels:
        labels[names.PHASE_LABEL] = Phase.IDLE.value
    kept = tuple(pair for pair in record.annotations if pair[0] != names.CLAIM_ANNOTATION)
    return replace(pod, pod=replace(pod.pod, pod=replace(record, labels=pairs(labels), annotations=kept)))
