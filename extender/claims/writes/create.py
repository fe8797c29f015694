"""Creates a pod for a claim that finds no idle one.

The pod's name is derived from the claim's, so the write can be repeated: if a pod of this name exists, an earlier try
has created it. The pod has the claim's mark from its creation. It has no owner and lacks the labels by which its pool
and its workload select pods, so that no controller adopts it and no other claim gets it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extender.claims.records import ClaimMark, Pairs, WarmPod
from extender.claims.writes import names
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, collection_path

#: Labels by which controllers select the pods of one revision of their template.
_REVISIONS = ("pod-template-hash", "controller-revision-hash")


class CreatePod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """POST a pod made from the template. Reported by PodCreated.

    `without`: names of labels that are left out; `labels`, `annotations`: those of the claim.
    """

    token: int
    namespace: str
    name: str
    template: Mapping[str, Any]
    mark: ClaimMark
    without: tuple[str, ...] = ()
    labels: Pairs = ()
    annotations: Pairs = ()
    term: int = 0
    valid_for: float = 20.0


class PodCreated(msgspec.Struct, frozen=True, gc=False):
    """The report of a CreatePod: DONE with the pod; LOST if a pod of this name exists."""

    token: int
    outcome: Outcome
    pod: WarmPod | None = None


def pod_name(pool: str, claim: str, number: int) -> str:
    """Return the name of the claim's pod with this number: a valid pod name, the same for every try."""
    digest = hashlib.blake2b(f"{claim}/{number}".encode(), digest_size=10).hexdigest()
    return f"{pool[:40].rstrip('-.')}-{digest}"


def request(create: CreatePod) -> Request:
    template = create.template.get("metadata") or {}
    without = {*create.without, *_REVISIONS}
    labels = {name: value for name, value in (template.get("labels") or {}).items() if name not in without}
    labels.update(create.labels)
    labels[names.CLAIM_LABEL] = create.mark.claim
    annotations = {**(template.get("annotations") or {}), **dict(create.annotations)}
    annotations[names.CLAIM_ANNOTATION] = names.mark_text(create.mark)
    metadata = {"name": create.name, "namespace": create.namespace, "labels": labels, "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": create.template.get("spec") or {}}
    return Request("POST", collection_path("pods", namespace=create.namespace), body=msgspec.json.encode(body))


def report(create: CreatePod, outcome: Outcome, pod: WarmPod | None) -> PodCreated:
    return PodCreated(create.token, outcome, pod)


def kind(decode: Callable[[bytes], WarmPod]) -> CommandKind[CreatePod, WarmPod, PodCreated]:
    """Return the kind. `decode` makes the record of a pod as informers make it, and raises DecodeError."""
    return CommandKind(command=CreatePod, request=request, report=report, reported_as=PodCreated, decode=decode)
