"""Changes when the lease on a claimed pod ends.

The patch tests the text of the mark that it replaces. If a release, an expiry or another renewal was earlier, that one
wins, and the pod is read back to find out which.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extender.claims.records import ClaimMark, WarmPod
from extender.claims.writes import names
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request


class RenewPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """PATCH the pod's mark. `before`: the text of the present mark. Reported by PodRenewed."""

    token: int
    namespace: str
    name: str
    uid: str
    before: str
    mark: ClaimMark
    term: int = 0
    valid_for: float = 20.0


class PodRenewed(msgspec.Struct, frozen=True, gc=False):
    """The report of a RenewPod. `pod`: the API server's version after the write; only with DONE."""

    token: int
    outcome: Outcome
    pod: WarmPod | None = None


def request(renew: RenewPod) -> Request:
    operations = [
        names.test("metadata", "uid", value=renew.uid),
        names.test("metadata", "deletionTimestamp", value=None),
        names.test("metadata", "labels", names.CLAIM_LABEL, value=renew.mark.claim),
        names.test("metadata", "annotations", names.CLAIM_ANNOTATION, value=renew.before),
        names.put("metadata", "annotations", names.CLAIM_ANNOTATION, value=names.mark_text(renew.mark)),
    ]
    return names.patch_request(renew.namespace, renew.name, operations)


def report(renew: RenewPod, outcome: Outcome, pod: WarmPod | None) -> PodRenewed:
    return PodRenewed(renew.token, outcome, pod)


def kind(decode: Callable[[bytes], WarmPod]) -> CommandKind[RenewPod, WarmPod, PodRenewed]:
    """Return the kind. `decode` makes the record of a pod as informers make it, and raises DecodeError."""
    return CommandKind(command=RenewPod, request=request, report=report, reported_as=PodRenewed, decode=decode)
