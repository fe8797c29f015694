"""Reads a pod's JSON into a WarmPod: only the fields that the engine of claims needs."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.model import DecodeError
from extender.claims.records import WarmPod
from extender.claims.writes import names

#: On an idle pod that somebody is going to delete to make the pool smaller. Its value does not matter.
SURPLUS_ANNOTATION = "waggle.dev/scale-down"


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _PodIP(msgspec.Struct):
    ip: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None
    pod_ips: list[_PodIP] | None = msgspec.field(default=None, name="podIPs")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_DECODER = msgspec.json.Decoder(_Pod)


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
    is_ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions or ())
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
        is_idle=labels.get(names.PHASE_LABEL, names.IDLE) == names.IDLE and names.CLAIM_LABEL not in labels,
        is_surplus=SURPLUS_ANNOTATION in annotations,
        addresses=tuple(each.ip for each in status.pod_ips or () if each.ip),
        owner=next((each.uid for each in metadata.owner_references or () if each.controller), ""),
        has_phase=names.PHASE_LABEL in labels,
        has_annotations=metadata.annotations is not None,
        mark=names.mark_of(annotations) if names.CLAIM_LABEL in labels else None,
    )


def _moment(text: str) -> float:
    """A number that grows with an RFC 3339 time in UTC: 2026-11-22T10:20:30Z is 20261122102030."""
    digits = "".join(filter(str.isdigit, text[:19]))
    return float(digits) if digits else 0.0
