"""Writes where the vreplicas of a vpod are, into its status.

The patch names the UID and the resourceVersion for which the decision was made: after any change in between the API
server answers 409 (LOST), and the engine decides again once it has seen the change. Of a resource of somebody else
only the placements are written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, collection_path, object_path, patch_request
from extender.vpods.records import VPodKey, VPodSource

#: The type of the condition of a VPod.
CONDITION = "Scheduled"
#: A label that no pod has. Autoscalers refuse a scale sub-resource without a selector, and two that select one pod.
SELECTOR_LABEL = "waggle.dev/vpod"


class WritePlacements(msgspec.Struct, frozen=True, kw_only=True):
    """PATCH the status of a vpod. Reported by PlacementsWritten."""

    token: int
    key: VPodKey
    source: VPodSource
    uid: str
    version: str
    placements: tuple[tuple[str, int], ...]
    #: The generation for which it was decided; 0: unknown.
    generation: int = 0
    #: How many of the wanted vreplicas are placed; those on their way count once.
    scheduled: int
    reason: str
    message: str
    #: The status of its condition Scheduled, and since when it has that: RFC 3339.
    condition: str
    since: str
    term: int = 0
    valid_for: float = 20.0


class PlacementsWritten(msgspec.Struct, frozen=True, gc=False):
    """The report of a WritePlacements."""

    token: int
    key: VPodKey
    outcome: Outcome


def vpod_path(source: VPodSource, key: VPodKey, subresource: str = "") -> str:
    """Return the path of a vpod, or of its subresource."""
    path = collection_path(source.resource, group=source.group, version=source.version, namespace=key.namespace)
    return object_path(path, key.name, subresource)


def request(write: WritePlacements) -> Request:
    source = write.source
    # Knative's controllers write placements by the names of pods as text: what they wrote stays as it is.
    ordered = write.placements if source.has_conditions else sorted(write.placements)
    placements = [{"podName": name, "vreplicas": number} for name, number in ordered]
    body = source.placements.patch(placements)
    if source.has_conditions:
        body["status"] |= _status(write)
    body["metadata"] = {"uid": write.uid, "resourceVersion": write.version}
    subresource = "status" if source.placements.steps[0] == "status" else ""
    return patch_request(vpod_path(source, write.key, subresource), body)


def _status(write: WritePlacements) -> dict[str, Any]:
    """All of the status of a VPod but its placements."""
    condition: dict[str, Any] = {
        "type": CONDITION,
        "status": write.condition,
        "reason": write.reason,
        "message": write.message,
        "lastTransitionTime": write.since,
    }
    status = {
        "scheduled": write.scheduled,
        "selector": f"{SELECTOR_LABEL}={write.uid}",
        "reason": write.reason,
        "message": write.message,
        "conditions": [condition],
    }
    if write.generation:
        condition["observedGeneration"] = status["observedGeneration"] = write.generation
    return status


def report(write: WritePlacements, outcome: Outcome, _: None) -> PlacementsWritten:
    return PlacementsWritten(write.token, write.key, outcome)


KIND = CommandKind(command=WritePlacements, request=request, report=report, reported_as=PlacementsWritten)
