"""Any record as plain data: a dict that names its kind, and back again.

Fields that are empty anyway are left out, so that a record that gets a new field is written as before. Fields are
sorted by name, because their order decides nothing; the order of lists and of mappings is kept, because it may.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

import msgspec

from algorithm.interface import SuggestedNodes

KIND = "is"
_NOTHING = object()


class _Field(NamedTuple):
    name: str
    default: object


def plain(value: object, apart: Mapping[str, Collection[str]] | None = None) -> Any:
    """`value` as JSON knows it. `apart` names fields, by kind, that are left out."""
    apart = apart or {}
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        return _record(value, apart)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(each, apart) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(each, apart) for each in value)
    if isinstance(value, Sequence):
        return [plain(each, apart) for each in value]
    raise TypeError(f"a recording cannot hold a {type(value).__name__}")


def _record(value: Any, apart: Mapping[str, Collection[str]]) -> dict[str, Any]:
    kind = type(value).__name__
    known = {KIND: kind}
    for field in _fields(type(value)):
        if field.name in apart.get(kind, ()):
            continue
        each = getattr(value, field.name)
        if not _is_empty(each) or not _is_empty(field.default):
            known[field.name] = plain(each, apart)
    return known


@cache
def _fields(kind: type[Any]) -> list[_Field]:
    """By name, each with its default."""
    if issubclass(kind, msgspec.Struct):
        found = [_Field(each.name, _default(each)) for each in msgspec.structs.fields(kind)]
    else:
        found = [_Field(each.name, _default(each)) for each in dataclasses.fields(kind)]
    return sorted(found)


def _default(field: Any) -> object:
    if field.default_factory not in (msgspec.NODEFAULT, dataclasses.MISSING):
        return field.default_factory()
    return _NOTHING if field.default in (msgspec.NODEFAULT, dataclasses.MISSING) else field.default


def _is_empty(value: object) -> bool:
    """False, 0 and 0.0 are: no default of one kind has a value of another."""
    sized = isinstance(value, str | tuple | frozenset | Mapping)
    return value is None or ((sized or isinstance(value, int | float)) and not value)


def record_of(known: Mapping[str, Any], kind: type[Any]) -> Any:
    """The record again. Raises msgspec.ValidationError."""
    return msgspec.convert(_without_kinds(known), type=kind, dec_hook=_decode)


def _without_kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_kinds(each) for key, each in value.items() if key != KIND}
    return [_without_kinds(each) for each in value] if isinstance(value, list) else value


def _decode(kind: type, value: Any) -> Any:
    if kind is SuggestedNodes:
        return SuggestedNodes(value)
    raise NotImplementedError(f"a recording holds no {kind.__name__}")


def line_of(known: object) -> str:
    """As it is written: a line of JSON."""
    return json.dumps(known, ensure_ascii=False, separators=(",", ":"))
