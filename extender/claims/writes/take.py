"""Claims a pod: one JSON Patch that succeeds only if the pod is still idle.

It tests the fields that matter, and not the resourceVersion, so writes of the kubelet are no conflict. If a test fails,
the API server answers 422 without saying which one, and the pod is read back.

In mode `detach`, the same patch takes the pod out of its ReplicaSet: it removes the owner and the labels of the pool's
selector. The ReplicaSet controller would remove its ownerReference later, in a write of its own, but not if the
ReplicaSet is being deleted: then the garbage collector would delete the claimed pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from extender.claims.records import ClaimMark, ImageChange, Pairs, Phase, WarmPod
from extender.claims.writes import names
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request


class TakePod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """PATCH the pod with the mark of a claim. Reported by PodTaken.

    `phase`: the new value of the phase label, "" for no label; `images`: the changes of images; `labels`,
    `annotations`: those of the claim. `detach`: the labels to remove, with their values; `owner`: the UID of the
    controller to remove, "" if there is none.
    """

    token: int
    namespace: str
    name: str
    uid: str
    mark: ClaimMark
    #: Whether the pod has a phase label, which then must say idle.
    has_phase: bool = False
    has_annotations: bool = True
    phase: str = ""
    images: tuple[ImageChange, ...] = ()
    labels: Pairs = ()
    annotations: Pairs = ()
    detach: tuple[tuple[str, str], ...] = ()
    owner: str = ""
    term: int = 0
    valid_for: float = 20.0


class PodTaken(msgspec.Struct, frozen=True, gc=False):
    """The report of a TakePod. `pod`: the API server's version after the write; only with DONE."""

    token: int
    outcome: Outcome
    pod: WarmPod | None = None


def request(take: TakePod) -> Request:
    metadata = "metadata"
    operations: list[dict[str, Any]] = [
        names.test(metadata, "uid", value=take.uid),
        names.test(metadata, "deletionTimestamp", value=None),
        names.test(metadata, "labels", names.CLAIM_LABEL, value=None),
    ]
    if take.phase:
        idle = Phase.IDLE if take.has_phase else None
        operations.append(names.test(metadata, "labels", names.PHASE_LABEL, value=idle))
        operations.append(names.put(metadata, "labels", names.PHASE_LABEL, value=take.phase))
    operations += names.change_images(take.images)
    for name, value in take.detach:
        operations.append(names.test(metadata, "labels", name, value=value))
        operations.append(names.drop(metadata, "labels", name))
    if take.owner:
        operations.append(names.test(metadata, "ownerReferences", "0", "uid", value=take.owner))
        operations.append(names.drop(metadata, "ownerReferences"))
    operations.append(names.put(metadata, "labels", names.CLAIM_LABEL, value=take.mark.claim))
    operations += [names.put(metadata, "labels", name, value=value) for name, value in take.labels]
    annotations = {**dict(take.annotations), names.CLAIM_ANNOTATION: names.mark_text(take.mark)}
    if take.has_annotations:
        operations += [names.put(metadata, "annotations", name, value=value) for name, value in annotations.items()]
    else:
        operations.append(names.test(metadata, "annotations", value=None))
        operations.append(names.put(metadata, "annotations", value=annotations))
    return names.patch_request(take.namespace, take.name, operations)


def report(take: TakePod, outcome: Outcome, pod: WarmPod | None) -> PodTaken:
    return PodTaken(take.token, outcome, pod)


def kind(decode: Callable[[bytes], WarmPod]) -> CommandKind[TakePod, WarmPod, PodTaken]:
    """Return the kind. `decode` makes the record of a pod as informers make it, and raises DecodeError."""
    return CommandKind(command=TakePod, request=request, report=report, reported_as=PodTaken, decode=decode)
