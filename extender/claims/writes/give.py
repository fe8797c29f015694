"""Ends a pod's claim: deletes the pod, or returns it to its pool.

Both can be repeated: the deletion names the UID, and the patch tests that the pod is still in this claim.
"""

from __future__ import annotations

import msgspec

from extender.claims.records import ClaimMark, ImageChange, Phase
from extender.claims.writes import names
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, pod_path


class GivePodBack(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """End the claim of a pod. `recycle`: return it to its pool; otherwise delete it. Reported by PodGivenBack.

    With `recycle`: `mark` says what the claim has set on the pod, None if that is unknown. If `images` must change
    first, the new phase is stopping, and the pod keeps `mark` until they have changed.

    Preconditions, "" for none: `before`, the text of the pod's mark (with `recycle`); `resource_version` (without).
    """

    token: int
    namespace: str
    name: str
    uid: str
    claim: str
    recycle: bool = False
    mark: ClaimMark | None = None
    images: tuple[ImageChange, ...] = ()
    before: str = ""
    resource_version: str = ""
    term: int = 0
    valid_for: float = 20.0


class PodGivenBack(msgspec.Struct, frozen=True, gc=False):
    """The report of a GivePodBack."""

    token: int
    outcome: Outcome


def request(give: GivePodBack) -> Request:
    if not give.recycle:
        preconditions = {"uid": give.uid}
        if give.resource_version:
            preconditions["resourceVersion"] = give.resource_version
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        return Request("DELETE", pod_path(give.namespace, give.name), body=msgspec.json.encode(body))
    operations = [
        names.test("metadata", "uid", value=give.uid),
        names.test("metadata", "labels", names.CLAIM_LABEL, value=give.claim),
    ]
    if give.before:
        operations.append(names.test("metadata", "annotations", names.CLAIM_ANNOTATION, value=give.before))
    mark = give.mark or ClaimMark(claim=give.claim, pool="")
    phase = Phase.STOPPING if give.images else Phase.IDLE
    operations.append(names.put("metadata", "labels", names.PHASE_LABEL, value=phase))
    operations += names.change_images(give.images)
    if give.images:
        text = names.mark_text(mark)
        operations.append(names.put("metadata", "annotations", names.CLAIM_ANNOTATION, value=text))
    else:
        operations += names.strip(mark)
    return names.patch_request(give.namespace, give.name, operations)


def report(give: GivePodBack, outcome: Outcome, _: None) -> PodGivenBack:
    return PodGivenBack(give.token, outcome)


KIND = CommandKind(command=GivePodBack, request=request, report=report, reported_as=PodGivenBack)
