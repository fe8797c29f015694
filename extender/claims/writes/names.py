"""The names of labels and annotations that claims stand in, and JSON Patch (RFC 6902) in small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from extender.claims.records import ClaimMark
from extender.core.requests import Request, pod_path

#: On every claimed pod: the claim's name. A label, so that it can be selected, and tested where no annotation exists.
CLAIM_LABEL = "waggle.dev/claim"
#: On every claimed pod: its ClaimMark as JSON.
CLAIM_ANNOTATION = "waggle.dev/claim"
#: On the pods of pools that recycle: IDLE or CLAIMED.
PHASE_LABEL = "waggle.dev/phase"
IDLE, CLAIMED = "idle", "claimed"

JSON_PATCH = "application/json-patch+json"


def mark_text(mark: ClaimMark) -> str:
    return msgspec.json.encode(mark).decode()


def mark_of(annotations: Mapping[str, str]) -> ClaimMark | None:
    """Return the mark on a pod; None if there is none that can be read. Anybody who may write pods can write one."""
    text = annotations.get(CLAIM_ANNOTATION, "")
    try:
        return msgspec.json.decode(text, type=ClaimMark) if text else None
    except msgspec.MsgspecError:
        return None


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
