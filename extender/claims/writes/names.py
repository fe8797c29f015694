"""The names of labels and annotations that claims stand in, and JSON Patch (RFC 6902) in small."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from extender.claims.records import ClaimMark, ImageChange
from extender.core.requests import Request, pod_path

#: On every claimed pod: the claim's name. A label, so that it can be selected, and tested where no annotation exists.
CLAIM_LABEL = "waggle.dev/claim"
#: On every claimed pod: its ClaimMark as JSON.
CLAIM_ANNOTATION = "waggle.dev/claim"
#: On the pods of pools that recycle: a Phase.
PHASE_LABEL = "waggle.dev/phase"
#: On an idle pod that somebody is going to delete to make the pool smaller. Its value does not matter.
SURPLUS_ANNOTATION = "waggle.dev/scale-down"

#: What a claim through E2B's API wants to be told of itself later, as JSON (extender/web/e2b). An annotation like any
#: other that a caller asks for.
SANDBOX_ANNOTATION = "e2b.dev/sandbox"

JSON_PATCH = "application/json-patch+json"


_MARKS = msgspec.json.Decoder(ClaimMark)


def mark_text(mark: ClaimMark) -> str:
    return msgspec.json.encode(mark).decode()


def mark_of(annotations: Mapping[str, str]) -> ClaimMark | None:
    """Return the mark on a pod; None if there is none that can be read. Anybody who may write pods can write one."""
    text = annotations.get(CLAIM_ANNOTATION, "")
    try:
        return _MARKS.decode(text) if text else None
    except msgspec.MsgspecError:
        return None


@lru_cache(maxsize=1024)  # nearly all patches have the same ones
def pointer(*parts: str) -> str:
    """Return the JSON Pointer (RFC 6901) of a path."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def test(*path: str, value: Any) -> dict[str, Any]:
    """An operation that fails the whole patch if the field has another value. None: the field must be absent."""
    return {"op": "test", "path": pointer(*path), "value": value}


def put(*path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": pointer(*path), "value": value}


def drop(*path: str) -> dict[str, Any]:
    return {"op": "remove", "path": pointer(*path)}


def patch_request(namespace: str, name: str, operations: list[dict[str, Any]]) -> Request:
    body = msgspec.json.encode(operations)
    return Request("PATCH", pod_path(namespace, name), body=body, content_type=JSON_PATCH)


def change_images(changes: tuple[ImageChange, ...]) -> list[dict[str, Any]]:
    """The operations that give containers other images, if they still have the ones before."""
    operations: list[dict[str, Any]] = []
    for place, container, before, after in changes:
        path = ("spec", "containers", str(place))
        operations.append(test(*path, "name", value=container))
        operations.append(test(*path, "image", value=before))
        operations.append(put(*path, "image", value=after))
    return operations


def strip(mark: ClaimMark) -> list[dict[str, Any]]:
    """The operations that take everything off a pod that its claim put on it. They succeed whatever is left of it."""
    operations: list[dict[str, Any]] = []
    for name, value in mark.labels:
        operations += [put("metadata", "labels", name, value=value)] if value is not None else off("labels", name)
    for name in mark.annotations:
        operations += off("annotations", name)
    return [*operations, *off("labels", CLAIM_LABEL), *off("annotations", CLAIM_ANNOTATION)]


def off(where: str, name: str) -> list[dict[str, Any]]:
    """The operations that remove a label or an annotation, if it is there: RFC 6902 only removes what exists."""
    return [put("metadata", where, name, value=""), drop("metadata", where, name)]
