"""Kubernetes objects inside this server: plain JSON values, and how they become bytes.

An object is stored without `kind` and `apiVersion`, as its encoded bytes: a LIST joins those bytes, and a single
object or a watch event puts the two fields in front. To change an object, decode a fresh copy, so a stored
object is never changed by anybody.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from extender.embedded.apiserver.errors import bad_request
from extender.embedded.apiserver.resources import Resource

#: A JSON object.
Object = dict[str, Any]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()
_FIRST = ("metadata", "spec", "status")


def encode(value: object) -> bytes:
    return _encoder.encode(value)


def decode(raw: bytes) -> Any:
    return _decoder.decode(raw)


def encode_stored(obj: Object) -> bytes:
    """The bytes in which an object is stored: metadata first, as Kubernetes writes it; no kind, no apiVersion."""
    ordered = {key: obj[key] for key in _FIRST if key in obj}
    ordered |= {key: value for key, value in obj.items() if key not in ordered and key not in ("kind", "apiVersion")}
    return _encoder.encode(ordered)


def type_prefix(resource: Resource) -> bytes:
    """What stands before the stored bytes (without their opening brace) when an object is shown alone."""
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()


def without_nulls(value: Any) -> Any:
    """null is "absent" to the API server: it is dropped from objects, at any depth."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def section(parent: Object, key: str, path: str = "") -> Object:
    """`parent[key]` as an object, created if absent. Raises 400 naming the field if it is something else."""
    value = parent.setdefault(key, {})
    if not isinstance(value, dict):
        raise wrong_type(f"{path}.{key}" if path else key, "an object", value)
    return value


def items(parent: Object, key: str, path: str = "") -> list[Object]:
    """`parent[key]` as a list of objects, empty if absent. Raises 400 naming the field if it is something else."""
    value = parent.get(key, [])
    where = f"{path}.{key}" if path else key
    if not isinstance(value, list):
        raise wrong_type(where, "a list", value)
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise wrong_type(f"{where}[{index}]", "an object", item)
    return value


def text(parent: Object, key: str, path: str = "") -> str:
    """`parent[key]` as a string, "" if absent. Raises 400 naming the field if it is something else."""
    value = parent.get(key, "")
    if not isinstance(value, str):
        raise wrong_type(f"{path}.{key}" if path else key, "a string", value)
    return value


def wrong_type(path: str, expected: str, value: object) -> Exception:
    return bad_request(f"{path} must be {expected}, not {type(value).__name__}")


def timestamp(seconds: float) -> str:
    """RFC 3339 in whole seconds, as metav1.Time is written."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lookup(obj: Object, path: tuple[str, ...]) -> str:
    """The value at `path` as a field selector sees it: text, "" if absent."""
    value: Any = obj
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return ""
        value = value[key]
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
