"""Pods as a controller would make them from a template, with the API server's defaults, priority and dependencies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from algorithm.model import pairs
from extender.core.ordering_names import GATE
from extender.embedded.apiserver.defaults import set_defaults
from extender.embedded.apiserver.objects import encode
from extender.embedded.apiserver.table import PODS
from extender.embedded.kubescheduler.model import SchedNode, SchedPod, decode_pod
from extender.ordering.records import GROUP, Dependency, Target
from extender.plan.reading.dependencies import declared
from extender.plan.reading.gangs import gang_of
from extender.plan.reading.priorities import PriorityClasses
from extender.plan.reading.runtimes import expected_seconds
from extender.plan.reading.workloads import Batch
from extender.plan.records import PlanPod

Object = dict[str, Any]


class PodMaker:
    """Makes pods. `gangs`: the annotations of the PodGroups."""

    def __init__(self, classes: PriorityClasses, gangs: Mapping[Target, Mapping[str, str]]) -> None:
        self._classes = classes
        self._gangs = gangs

    def make(
        self, batch: Batch, indexes: Iterable[int], origin: str, of_part: tuple[Dependency, ...] = ()
    ) -> Iterator[PlanPod]:
        """Yield the pods at these indexes, in their order. `of_part`: what all of them wait for.

        Raises ApiError (priority), DecodeError, RunTimeFault or AfterError, before the first pod.
        """
        pod = batch.first_pod()
        set_defaults(PODS, pod)
        self._classes.resolve(pod)
        own = pod["metadata"].get("annotations", {})
        first = msgspec.structs.replace(decode_pod(encode(pod)), raw=b"")
        gang = gang_of(first.pod, own, pod["metadata"].get("labels", {}))
        if gang is None and batch.gang:
            gang = Target(GROUP, batch.namespace, batch.gang)
        levels = (own, *batch.annotations, self._gangs.get(gang, {}) if gang else {})
        whole = batch.owner or Target("Pod", batch.namespace, first.pod.name)
        mine = (whole, *batch.above, *((gang,) if gang else ()))
        after = tuple(dict.fromkeys((*declared(levels, batch.namespace, mine), *of_part)))
        deadline = min(filter(None, (batch.deadline, _deadline(pod))), default=0.0)
        shared = PlanPod(
            pod=first,
            owner=batch.owner,
            above=batch.above,
            group=gang,
            runs_to_end=batch.runs_to_end,
            seconds=expected_seconds(levels, deadline),
            after=after,
            has_own_gate=_has_own_gate(pod),
            origin=origin,
        )
        for index in indexes:
            behind = batch.name(index - 1) if batch.in_order and index else ""
            yield msgspec.structs.replace(shared, pod=_numbered(first, batch, index), behind=behind)


def _has_own_gate(pod: Object) -> bool:
    """Whether the only gate is that of start-up ordering."""
    return {each.get("name") for each in pod["spec"].get("schedulingGates") or ()} == {GATE}


def _deadline(pod: Object) -> float:
    seconds = pod["spec"].get("activeDeadlineSeconds", 0)
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else 0.0


def _numbered(first: SchedPod, batch: Batch, index: int) -> SchedPod:
    """The pod at this index: another name, UID and labels."""
    name = batch.name(index)
    labels = first.pod.labels
    if batch.index_labels or batch.name_labels:
        labels = pairs({**dict(labels), **batch.labels_of(index)})
    record = msgspec.structs.replace(
        first.pod, name=name, uid=made_uid("Pod", batch.namespace, name), resource_version="1", labels=labels
    )
    return msgspec.structs.replace(first, pod=record, generation=1)


def made_uid(kind: str, namespace: str, name: str) -> str:
    """Return the UID of an object that a plan makes: the same for the same name."""
    text = hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def known_node(node: SchedNode) -> SchedNode:
    """Return the node of a manifest with a UID and a version, as the API server would give it."""
    uid = node.uid or made_uid("Node", "", node.name)
    record = msgspec.structs.replace(node.node, uid=uid, resource_version="1")
    return msgspec.structs.replace(node, node=record, raw=b"")
