"""The labels and annotations of claims, and the operations of JSON Patch (RFC 6902) that write them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from extender.claims.records import ClaimMark, ImageChange
from extender.core.requests import Request, pod_path

#: On every claimed pod: the claim's name. A label, so that a selector can use it, and a patch can test it on a pod
#: without annotations.
CLAIM_LABEL = "waggle.dev/claim"
#: On every claimed pod: its ClaimMark as JSON.
CLAIM_ANNOTATION = "waggle.dev/claim"
#: On pods in pools in mode `recycle`: a Phase.
PHASE_LABEL = "waggle.dev/phase"
#: On an idle pod that the autoscaler is going to delete. The value does not matter.
SURPLUS_ANNOTATION = "waggle.dev/scale-down"

#: What E2B's API must know of a sandbox later, as JSON (extender/web/e2b). Set like any annotation of a request.
SANDBOX_ANNOTATION = "e2b.dev/sandbox"

JSON_PATCH = "application/json-patch+json"


#: Characters of a mark that is read: what Waggle writes has a quarter of it at most.
MOST_MARK = 128 * 1024
_MARKS = msgspec.json.Decoder(ClaimMark)


def mark_text(mark: ClaimMark) -> str:
    return msgspec.json.encode(mark).decode()


def mark_of(annotations: Mapping[str, str]) -> ClaimMark | None:
    """Return the mark on a pod; None if there is none, or it cannot be decoded: every client that may write pods can
    change it."""
    text = annotations.get(CLAIM_ANNOTATION, "")
    try:
        return _MARKS.decode(text) if 0 < len(text) <= MOST_MARK else None
    except msgspec.MsgspecError:
        return None


def named_as(label: str, mark: ClaimMark) -> ClaimMark:
    """Return the mark with the claim's name as it stands on the pod: `ClaimState.see` may know it by another one."""
    return mark if mark.claim == label else msgspec.structs.replace(mark, claim=label)


@lru_cache(maxsize=1024)  # nearly all patches use the same paths
def pointer(*parts: str) -> str:
    """Return the JSON Pointer (RFC 6901) of a path."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def test(*path: str, value: Any) -> dict[str, Any]:
    """Return an operation that fails the whole patch if the field has another value. None: the field must be absent."""
    return {"op": "test", "path": pointer(*path), "value": value}


def put(*path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": pointer(*path), "value": value}


def drop(*path: str) -> dict[str, Any]:
    return {"op": "remove", "path": pointer(*path)}


def patch_request(namespace: str, name: str, operations: list[dict[str, Any]]) -> Request:
    body = msgspec.json.encode(operations)
    return Request("PATCH", pod_path(namespace, name), body=body, content_type=JSON_PATCH)


def change_images(changes: tuple[ImageChange, ...]) -> list[dict[str, Any]]:
    """Return the operations that change images, and test the container's name and its present image."""
    operations: list[dict[str, Any]] = []
    for place, container, before, after in changes:
        path = ("spec", "containers", str(place))
        operations.append(test(*path, "name", value=container))
        operations.append(test(*path, "image", value=before))
        operations.append(put(*path, "image", value=after))
    return operations


def strip(mark: ClaimMark) -> list[dict[str, Any]]:
    """Return the operations that remove all that the claim has set on the pod. They also succeed if it is gone."""
    operations: list[dict[str, Any]] = []
    for name, value in mark.labels:
        operations += [put("metadata", "labels", name, value=value)] if value is not None else off("labels", name)
    for name in mark.annotations:
        operations += off("annotations", name)
    return [*operations, *off("labels", CLAIM_LABEL), *off("annotations", CLAIM_ANNOTATION)]


def off(where: str, name: str) -> list[dict[str, Any]]:
    """Return the operations that remove a label or an annotation, if it exists: `remove` alone would fail if not."""
    return [put("metadata", where, name, value=""), drop("metadata", where, name)]
