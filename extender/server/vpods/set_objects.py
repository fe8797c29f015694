"""The records of VPodSet objects, and the write of their status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from extender.conversions.vpod_sets import custom_set
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, collection_path, object_path, patch_request
from extender.kube.informers.reflector import Resource
from extender.resources import GROUP, VERSION, VPodSet, VPodSetSpec, VPodSetStatus
from extender.server import custom_objects
from extender.vpods.records import ObjectKey, SetSettings


class SetObject(msgspec.Struct, frozen=True, kw_only=True):
    """A VPodSet. `fault`: why its `spec` cannot be used, then there are no settings; "" if it can."""

    uid: str
    resource_version: str
    key: ObjectKey
    generation: int
    created: str
    settings: SetSettings | None
    fault: str
    status: VPodSetStatus
    size: int


def decode_set(raw: bytes) -> SetObject:
    """Return the record of a VPodSet. Raises DecodeError if not even its name can be read."""
    obj, metadata = custom_objects.decode(raw)
    spec, fault = custom_objects.read_spec(VPodSetSpec, obj)
    found = VPodSet.model_construct(metadata=metadata, spec=spec) if spec is not None else None
    return SetObject(
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        key=ObjectKey(metadata.namespace, metadata.name),
        generation=metadata.generation,
        created=metadata.creation_timestamp,
        settings=custom_set(found) if found is not None else None,
        fault=fault,
        status=custom_objects.read_status(VPodSetStatus, obj),
        size=len(raw),
    )


SETS: Final[Resource[SetObject]] = Resource(
    "vpodsets",
    lambda raw: decode_set(bytes(raw)),
    lambda found: str(found.key),
    group=GROUP,
    version=VERSION,
    weigh=lambda found: custom_objects.weigh(found.size),
)


class WriteSetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """PATCH the status of a VPodSet; the last write wins. Reported by SetStatusWritten."""

    token: int
    key: ObjectKey
    uid: str
    status: Mapping[str, Any]
    term: int = 0
    valid_for: float = 20.0


class SetStatusWritten(msgspec.Struct, frozen=True):
    """The report of a WriteSetStatus. `obj`: the API server's version after the write; only with DONE."""

    token: int
    outcome: Outcome
    obj: SetObject | None = None


def _request(write: WriteSetStatus) -> Request:
    collection = collection_path(SETS.plural, group=GROUP, version=VERSION, namespace=write.key.namespace)
    body = {"metadata": {"uid": write.uid}, "status": write.status}
    return patch_request(object_path(collection, write.key.name, "status"), body)


def _report(write: WriteSetStatus, outcome: Outcome, obj: SetObject | None) -> SetStatusWritten:
    return SetStatusWritten(write.token, outcome, obj)


KIND = CommandKind(
    command=WriteSetStatus, request=_request, report=_report, reported_as=SetStatusWritten, decode=decode_set
)
