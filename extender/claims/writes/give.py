"""Ends a pod's claim: the pod is deleted, or returns to its pool.

Both can be repeated: a deletion names the UID, and a patch tests that the pod still is in this claim.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from extender.claims.writes import names
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, pod_path


@dataclass(frozen=True, slots=True, kw_only=True)
class GivePodBack:
    """End the claim of a pod. `recycle`: it is idle again; otherwise it is deleted. Reported by PodGivenBack."""

    token: int
    namespace: str
    name: str
    uid: str
    claim: str
    recycle: bool = False
    term: int = 0
    valid_for: float = 20.0


@dataclass(frozen=True, slots=True)
class PodGivenBack:
    """The report of a GivePodBack."""

    token: int
    outcome: Outcome


def request(give: GivePodBack) -> Request:
    if not give.recycle:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": give.uid}}
        return Request("DELETE", pod_path(give.namespace, give.name), body=msgspec.json.encode(body))
    operations = [
        names.test("metadata", "uid", value=give.uid),
        names.test("metadata", "labels", names.CLAIM_LABEL, value=give.claim),
        names.put("metadata", "labels", names.PHASE_LABEL, value=names.IDLE),
        names.drop("metadata", "labels", names.CLAIM_LABEL),
        names.drop("metadata", "annotations", names.CLAIM_ANNOTATION),
    ]
    return names.patch_request(give.namespace, give.name, operations)


def report(give: GivePodBack, outcome: Outcome, _: None) -> PodGivenBack:
    return PodGivenBack(give.token, outcome)


KIND = CommandKind(command=GivePodBack, request=request, report=report, reported_as=PodGivenBack)
