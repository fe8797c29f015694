"""Reads custom resources of any kind into records: an object with an invalid spec has one too, with the fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from algorithm.decoding import DecodeError
from extender.resources import Metadata, ResourceError, read

#: Memory for each byte of an object, and in addition for each object, bytes, estimated.
_PER_BYTE, _RECORD = 6, 3000
_M = TypeVar("_M", bound=BaseModel)


def decode(raw: bytes) -> tuple[Mapping[str, Any], Metadata]:
    """Return the object and its metadata. Raises DecodeError if not even its name can be read."""
    try:
        obj = msgspec.json.decode(raw)
        return obj, read(Metadata, obj["metadata"])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ResourceError, KeyError, TypeError) as error:
        raise DecodeError(f"metadata: {error}") from error


def read_spec(model: type[_M], obj: Mapping[str, Any]) -> tuple[_M | None, str]:
    """Return the spec, or why it cannot be used, with the names of its fields."""
    try:
        return read(model, obj.get("spec")), ""
    except ResourceError as error:
        return None, f"spec.{error}".replace("; ", "; spec.").replace("spec.and ", "and ")


def read_status(model: type[_M], obj: Mapping[str, Any]) -> _M:
    """Return the status; an empty one if it is not valid, which is then overwritten."""
    try:
        return read(model, obj.get("status") or {})
    except ResourceError:
        return model()


def weigh(size: int) -> int:
    """Estimate the bytes of memory that the record of an object of so many bytes takes."""
    return _RECORD + _PER_BYTE * size
