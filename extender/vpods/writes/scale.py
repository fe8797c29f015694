"""Sets the replicas of a StatefulSet through its scale sub-resource, if it is still as it was seen (409, LOST: not)."""

from __future__ import annotations

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, collection_path, object_path, patch_request
from extender.vpods.records import ObjectKey


class ScaleSet(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """PATCH the scale of a StatefulSet. Reported by SetScaled."""

    token: int
    key: ObjectKey
    replicas: int
    version: str
    term: int = 0
    valid_for: float = 20.0


class SetScaled(msgspec.Struct, frozen=True, gc=False):
    """The report of a ScaleSet."""

    token: int
    outcome: Outcome


def request(scale: ScaleSet) -> Request:
    path = collection_path("statefulsets", group="apps", namespace=scale.key.namespace)
    body = {"metadata": {"resourceVersion": scale.version}, "spec": {"replicas": scale.replicas}}
    return patch_request(object_path(path, scale.key.name, "scale"), body)


def report(scale: ScaleSet, outcome: Outcome, _: None) -> SetScaled:
    return SetScaled(scale.token, outcome)


KIND = CommandKind(command=ScaleSet, request=request, report=report, reported_as=SetScaled, delays_handover=True)
