"""Creates a pod for a claim that finds no idle one.

Its name follows from the claim's, so that the write can be repeated: a pod of this name that exists is the one that an
earlier try created. It bears the claim's mark from its beginning, belongs to no controller, and lacks the labels by
which its pool and its workload select, so that nobody else takes it.
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

#: Labels with which controllers find the pods of one revision of their template.
_REVISIONS = ("pod-template-hash", "controller-revision-hash")


class CreatePod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """POST a pod made of the template. Reported by PodCreated.

    `without`: names of labels that it does not get; `labels`, `annotations`: what the claim puts on it.
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
    """The report of a CreatePod: DONE with the pod, or LOST if one of this name exists."""

    token: int
    outcome: Outcome
    pod: WarmPod | None = None


def pod_name(pool: str, claim: str, number: int) -> str:
    """Return the name of the claim's pod of this number: a valid name of a pod, the same in every try."""
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
