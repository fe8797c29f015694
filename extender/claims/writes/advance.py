"""Ends a change of images: a starting pod becomes running, or a stopping pod becomes idle.

Every server that watches the pod can send this: the patch tests the phase and the claim, so it takes effect once. One
write removes the claim's name and all that the claim set on the pod, so a late clean-up cannot harm a later claim.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extender.claims.records import ClaimMark, Phase, WarmPod
from extender.claims.writes import names
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request


class AdvancePod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """PATCH the pod's phase: STARTING to RUNNING, with the new `mark`; or STOPPING to IDLE, which removes `mark`.
    `before`: the text of the present mark. Reported by PodAdvanced."""

    token: int
    namespace: str
    name: str
    uid: str
    phase: Phase
    before: str
    mark: ClaimMark
    term: int = 0
    valid_for: float = 20.0


class PodAdvanced(msgspec.Struct, frozen=True, gc=False):
    """The report of an AdvancePod. `pod`: the API server's version after the write; only with DONE."""

    token: int
    outcome: Outcome
    pod: WarmPod | None = None


def request(advance: AdvancePod) -> Request:
    start = Phase.STARTING if advance.phase is Phase.RUNNING else Phase.STOPPING
    operations = [
        names.test("metadata", "uid", value=advance.uid),
        names.test("metadata", "labels", names.CLAIM_LABEL, value=advance.mark.claim),
        names.test("metadata", "annotations", names.CLAIM_ANNOTATION, value=advance.before),
        names.test("metadata", "labels", names.PHASE_LABEL, value=start),
        names.put("metadata", "labels", names.PHASE_LABEL, value=advance.phase),
    ]
    if advance.phase is Phase.RUNNING:
        text = names.mark_text(advance.mark)
        operations.append(names.put("metadata", "annotations", names.CLAIM_ANNOTATION, value=text))
    else:
        operations += names.strip(advance.mark)
    return names.patch_request(advance.namespace, advance.name, operations)


def report(advance: AdvancePod, outcome: Outcome, pod: WarmPod | None) -> PodAdvanced:
    return PodAdvanced(advance.token, outcome, pod)


def kind(decode: Callable[[bytes], WarmPod]) -> CommandKind[AdvancePod, WarmPod, PodAdvanced]:
    """Return the kind. `decode` makes the record of a pod as informers make it, and raises DecodeError."""
    return CommandKind(command=AdvancePod, request=request, report=report, reported_as=PodAdvanced, decode=decode)
