"""Which pods a plan has to know in full, as the child asks the server for them.

Records of running pods do not say to what a pod belongs. That matters for pods of drained nodes, which are made again;
of workloads that are deleted, or whose priority changes; of workloads that exist and are applied again, which make only
pods that are missing; and of those that others wait for. Where their labels are known, pods are read by label; else all
pods of the namespace are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from extender.ordering.records import AFTER, JOB_SET, VOLCANO_JOB, Target
from extender.plan.reading.kinds import Role, group_of, role_of
from extender.plan.records import Changes, PlanPod, RawObject
from extender.server.plans.frames import Needs

#: The label with the name of the object, by its kind.
_NAMED_BY = {
    "Job": "batch.kubernetes.io/job-name",
    JOB_SET: "jobset.sigs.k8s.io/jobset-name",
    VOLCANO_JOB: "volcano.sh/job-name",
}
#: Words of an object that waits for others.
_WAITS = (AFTER.encode(), b'"dependsOn"')


class _Selector(msgspec.Struct, gc=False, rename="camel"):
    match_labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, gc=False):
    selector: _Selector | None = None


class _Workload(msgspec.Struct, gc=False):
    spec: _Spec | None = None


_workloads = msgspec.json.Decoder(_Workload)


class _Pods(NamedTuple):
    """Pods of a namespace, those with some labels or all ("")."""

    namespace: str
    labels: str = ""


def needs_of(changes: Changes) -> Needs:
    """Return what the changes need."""
    named = [_of_target(each) for each in (*changes.delete, *(target for target, _ in changes.priorities))]
    created = [found for each in changes.create for found in _of_object(each)]
    return _needs([*filter(None, named), *created], changes.drain)


def needs_of_waiting(pods: Iterable[PlanPod]) -> Needs:
    """Return what pods that wait for others need."""
    targets = {dependency.target for pod in pods if not pod.pod.pod.node_name for dependency in pod.after}
    return _needs(filter(None, map(_of_target, targets)), ())


def _needs(found: Iterable[_Pods], nodes: tuple[str, ...]) -> Needs:
    asked = set(found)
    whole = {each.namespace for each in asked if not each.labels}
    selected = sorted((each.namespace, each.labels) for each in asked if each.labels and each.namespace not in whole)
    return Needs(nodes=nodes, namespaces=tuple(sorted(whole)), selected=tuple(selected))


def _of_target(target: Target) -> _Pods | None:
    if not target.namespace:
        return None
    label = _NAMED_BY.get(target.kind)
    return _Pods(target.namespace, f"{label}={target.name}" if label else "")


def _of_object(raw: RawObject) -> Iterable[_Pods]:
    if not raw.namespace:
        return
    if any(word in raw.json for word in _WAITS):
        yield _Pods(raw.namespace)
    elif role_of(raw.api_version, raw.kind) is Role.MAKES_PODS and raw.kind != "Pod":
        yield _Pods(raw.namespace, _labels(raw))


def _labels(raw: RawObject) -> str:
    label = _NAMED_BY.get(VOLCANO_JOB if group_of(raw.api_version) == "batch.volcano.sh" else raw.kind)
    if label is not None:
        return f"{label}={raw.name}"
    try:
        spec = _workloads.decode(raw.json).spec
    except msgspec.MsgspecError:
        return ""
    selector = spec.selector if spec is not None else None
    labels = (selector.match_labels or {}) if selector is not None else {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
