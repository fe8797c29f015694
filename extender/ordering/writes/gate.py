"""Removes the scheduling gate of a pod, and records on it that it was released.

The JSON patch tests the UID, and that the gate stands at the place where it was seen: it can remove no other gate, and
no gate of another pod. Other changes of the pod in between do no harm, so the resourceVersion is not tested. The API
server refuses a patch whose test fails (422), and the engine then reads the pod.
"""

from __future__ import annotations

import msgspec

from algorithm.decoding import DecodeError
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.requests import Request, pod_path
from extender.ordering.podreader import decode_pod
from extender.ordering.records import GATE, MET, RELEASED, PodKey, PodRecord

JSON_PATCH = "application/json-patch+json"
#: As a step of a JSON Pointer (RFC 6901).
_ESCAPED_MET = MET.replace("/", "~1")


class RemoveGate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """PATCH a pod. Reported by GateRemoved."""

    token: int
    key: PodKey
    uid: str
    #: The place of the gate in spec.schedulingGates, from 0.
    place: int
    #: Whether the pod has annotations: without any, the patch must make the map of them first.
    has_annotations: bool = True
    term: int = 0
    valid_for: float = 20.0


class GateRemoved(msgspec.Struct, frozen=True):
    """The report of a RemoveGate. `pod`: as the write left it; only with DONE."""

    token: int
    key: PodKey
    uid: str
    outcome: Outcome
    pod: PodRecord | None = None


def request(write: RemoveGate) -> Request:
    place = f"/spec/schedulingGates/{write.place}"
    patch: list[dict[str, object]] = [
        {"op": "test", "path": "/metadata/uid", "value": write.uid},
        {"op": "test", "path": f"{place}/name", "value": GATE},
        {"op": "remove", "path": place},
    ]
    if write.has_annotations:
        patch.append({"op": "add", "path": f"/metadata/annotations/{_ESCAPED_MET}", "value": RELEASED})
    else:
        patch.append({"op": "test", "path": "/metadata/annotations", "value": None})
        patch.append({"op": "add", "path": "/metadata/annotations", "value": {MET: RELEASED}})
    path = pod_path(write.key.namespace, write.key.name)
    return Request("PATCH", path, body=msgspec.json.encode(patch), content_type=JSON_PATCH)


def report(write: RemoveGate, outcome: Outcome, body: bytes | None) -> GateRemoved:
    """A pod in the response that cannot be decoded is read again: the write has happened all the same."""
    pod = None
    if outcome.kind is OutcomeKind.DONE:
        try:
            pod = decode_pod(body or b"")
        except DecodeError:
            pod = None
    return GateRemoved(write.token, write.key, write.uid, outcome, pod)


KIND = CommandKind(
    command=RemoveGate, request=request, report=report, reported_as=GateRemoved, decode=bytes, delays_handover=True
)
