"""Writes where the vreplicas of a vpod are, into its status.

The patch names the UID and the resourceVersion for which the decision was made: after any change in between the API
server answers 409 (LOST), and the engine decides again once it has seen the change.
"""

from __future__ import annotations

from typing import Any

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, collection_path, object_path, patch_request
from extender.vpods.records import ObjectKey

GROUP, VERSION, RESOURCE = "waggle.dev", "v1alpha1", "vpods"


class WritePlacements(msgspec.Struct, frozen=True, kw_only=True):
    """PATCH the status of a vpod. Reported by PlacementsWritten."""

    token: int
    key: ObjectKey
    uid: str
    version: str
    placements: tuple[tuple[str, int], ...]
    reason: str
    message: str
    term: int = 0
    valid_for: float = 20.0


class PlacementsWritten(msgspec.Struct, frozen=True, gc=False):
    """The report of a WritePlacements."""

    token: int
    key: ObjectKey
    outcome: Outcome


def request(write: WritePlacements) -> Request:
    path = collection_path(RESOURCE, group=GROUP, version=VERSION, namespace=write.key.namespace)
    status: dict[str, Any] = {
        "placements": [{"podName": name, "vreplicas": number} for name, number in write.placements],
        "scheduled": sum(number for _, number in write.placements),
        "reason": write.reason,
        "message": write.message,
    }
    metadata = {"uid": write.uid, "resourceVersion": write.version}
    return patch_request(object_path(path, write.key.name, "status"), {"metadata": metadata, "status": status})


def report(write: WritePlacements, outcome: Outcome, _: None) -> PlacementsWritten:
    return PlacementsWritten(write.token, write.key, outcome)


KIND = CommandKind(command=WritePlacements, request=request, report=report, reported_as=PlacementsWritten)
