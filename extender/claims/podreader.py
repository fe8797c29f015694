"""Reads a pod's JSON into a WarmPod: only the fields that the engine of claims needs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from algorithm.decoding import DecodeError
from extender.claims.records import Container, Phase, WarmPod
from extender.claims.writes import names


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Container(msgspec.Struct):
    name: str = ""
    image: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    containers: list[_Container] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _PodIP(msgspec.Struct):
    ip: str = ""


class _ContainerStatus(msgspec.Struct):
    name: str = ""
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str | None = msgspec.field(default=None, name="containerID")
    ready: bool = False


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None
    pod_ips: list[_PodIP] | None = msgspec.field(default=None, name="podIPs")
    container_statuses: list[_ContainerStatus] | None = msgspec.field(default=None, name="containerStatuses")
    observed_generation: int = msgspec.field(default=0, name="observedGeneration")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_DECODER = msgspec.json.Decoder(_Pod)


class PodEvent(msgspec.Struct):
    """A watch event of a pod. Events of the types BOOKMARK and ERROR have other objects, and cannot be decoded."""

    type: str
    object: _Pod


def from_event(event: PodEvent) -> WarmPod:
    """Return the pod of a watch event."""
    return _warm(event.object)


def decode(body: bytes) -> WarmPod:
    """Return the pod. Raises DecodeError, which names the field."""
    try:
        return _warm(_DECODER.decode(body))
    except msgspec.MsgspecError as error:
        raise DecodeError(str(error)) from None


def convert(pod: Any) -> WarmPod:
    """Return the pod of an object that is decoded already. Raises DecodeError, which names the field."""
    try:
        return _warm(msgspec.convert(pod, _Pod))
    except msgspec.MsgspecError as error:
        raise DecodeError(str(error)) from None


def _warm(pod: _Pod) -> WarmPod:
    metadata, status = pod.metadata, pod.status
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    phase, label = labels.get(names.PHASE_LABEL, ""), labels.get(names.CLAIM_LABEL, "")
    mark = names.mark_of(annotations) if label else None
    if mark is not None and mark.claim != label:
        mark = None  # Waggle writes both at once: somebody has changed one of them
    is_leaving = phase == Phase.STOPPING
    is_ready = False
    for condition in status.conditions or ():
        if condition.type == "Ready" and condition.status == "True":
            is_ready = True
            break
    return WarmPod(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        resource_version=metadata.resource_version,
        labels=labels,
        node=pod.spec.node_name or "",
        created=_moment(metadata.creation_timestamp or ""),
        is_ready=status.phase == "Running" and is_ready,
        is_terminating=metadata.deletion_timestamp is not None,
        is_idle=phase in ("", Phase.IDLE) and not label,
        is_surplus=names.SURPLUS_ANNOTATION in annotations,
        addresses=tuple([each.ip for each in status.pod_ips if each.ip]) if status.pod_ips else (),
        owner=_controller(metadata.owner_references) if metadata.owner_references else "",
        has_phase=names.PHASE_LABEL in labels,
        has_annotations=metadata.annotations is not None,
        mark=None if is_leaving else mark,
        mark_text=annotations.get(names.CLAIM_ANNOTATION, "") if mark is not None else "",
        sandbox=annotations.get(names.SANDBOX_ANNOTATION, "") if mark is not None else "",
        claim_label=label,
        phase=phase,
        leaving=mark if is_leaving else None,
        containers=_containers(pod) if phase else (),
        is_observed=not status.observed_generation or status.observed_generation >= metadata.generation,
    )


def _containers(pod: _Pod) -> tuple[Container, ...]:
    reported = {each.name: each for each in pod.status.container_statuses or ()}
    found = []
    for each in pod.spec.containers or ():
        status = reported.get(each.name)
        if status is None:
            found.append(Container(each.name, each.image))
        else:
            container_id = status.container_id or ""
            made = Container(each.name, each.image, status.image, status.image_id, container_id, status.ready)
            found.append(made)
    return tuple(found)


def _controller(owners: list[_Owner]) -> str:
    for each in owners:
        if each.controller:
            return each.uid
    return ""


@lru_cache(maxsize=4096)  # a pod is read many times in its life
def _moment(text: str) -> float:
    """Return an RFC 3339 time in UTC as a number of the same order: 2026-11-22T10:20:30Z is 20261122102030."""
    digits = "".join(filter(str.isdigit, text[:19]))
    return float(digits) if digits else 0.0
