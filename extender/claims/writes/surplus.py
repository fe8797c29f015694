"""Marks an idle pod for deletion by a scale-down, or clears the mark.

The patch tests that the pod is in no claim. Because of the deletion cost, a ReplicaSet that is scaled down deletes this
pod first; because of the other annotation, no server claims it.
"""

from __future__ import annotations

import msgspec

from extender.claims.writes import names
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
#: The lowest value that Kubernetes accepts.
_LEAST = "-2147483648"


class MarkSurplus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """PATCH the marks of a pod; `clear`: remove them. Reported by SurplusMarked."""

    token: int
    namespace: str
    name: str
    uid: str
    clear: bool = False
    has_annotations: bool = True
    term: int = 0
    valid_for: float = 20.0


class SurplusMarked(msgspec.Struct, frozen=True, gc=False):
    """The report of a MarkSurplus. REJECTED: the pod was claimed meanwhile, or has no mark to clear."""

    token: int
    outcome: Outcome


def request(mark: MarkSurplus) -> Request:
    marks = {names.SURPLUS_ANNOTATION: "1", DELETION_COST: _LEAST}
    operations = [
        names.test("metadata", "uid", value=mark.uid),
        names.test("metadata", "labels", names.CLAIM_LABEL, value=None),
    ]
    if mark.clear:
        operations += [names.drop("metadata", "annotations", name) for name in marks]
    elif mark.has_annotations:
        operations += [names.put("metadata", "annotations", name, value=value) for name, value in marks.items()]
    else:
        operations += [
            names.test("metadata", "annotations", value=None),
            names.put("metadata", "annotations", value=marks),
        ]
    return names.patch_request(mark.namespace, mark.name, operations)


def report(mark: MarkSurplus, outcome: Outcome, _: None) -> SurplusMarked:
    return SurplusMarked(mark.token, outcome)


KIND = CommandKind(command=MarkSurplus, request=request, report=report, reported_as=SurplusMarked)
