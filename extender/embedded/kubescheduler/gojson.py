"""JSON answers as Go's encoding/json reads them into a struct.

Only the first value of the body counts, names match in any case, unknown fields are ignored, null is "absent", and
one wrong type anywhere fails the whole answer. Errors carry Go's texts, as far as users get to see them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

_INT64 = 2**63


class GoJsonError(ValueError):
    """The body is not what Go could have decoded; the text is Go's."""


#: Reads one value; the second argument is the field's path for errors.
Reader = Callable[[Any, str], Any]


def first_value(body: bytes) -> Any:
    """The first JSON value of a body; what follows it is ignored. Raises GoJsonError."""
    text = body.decode("utf-8", errors="replace").lstrip(" \t\r\n")
    if not text:
        raise GoJsonError("EOF")
    try:
        return _decoder.raw_decode(text)[0]
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            raise GoJsonError("unexpected EOF") from error
        raise GoJsonError(_syntax_error(text, error)) from error
    except RecursionError as error:
        raise GoJsonError("exceeded max depth") from error


def _syntax_error(text: str, error: json.JSONDecodeError) -> str:
    """Python's finding in Go's words."""
    at, where = error.pos, "looking for beginning of value"
    if error.msg.startswith("Expecting property name"):
        where = "looking for beginning of object key string"
    elif error.msg.startswith("Expecting ':'"):
        where = "after object key"
    elif error.msg.startswith("Expecting ','"):
        where = "after array element" if _in_array(text[:at]) else "after object key:value pair"
    else:
        for literal in ("true", "false", "null"):
            if text[at] == literal[0]:
                wrong = next((i for i, letter in enumerate(literal) if text[at + i : at + i + 1] != letter), 0)
                at, where = at + wrong, f"in literal {literal} (expecting {literal[wrong]!r})"
                break
    return f"invalid character {text[at]!r} {where}" if at < len(text) else "unexpected EOF"


def _in_array(text: str) -> bool:
    """Whether the innermost thing that is open at the end of this valid beginning is an array."""
    open_ones: list[str] = []
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:\\.|[^"\\])*"', "", text)):
        if bracket in "[{":
            open_ones.append(bracket)
        else:
            open_ones.pop()
    return open_ones[-1:] == ["["]


def _refuse_constant(name: str) -> NoReturn:
    raise GoJsonError(f"invalid character {name[0]!r} looking for beginning of value")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def struct(value: Any, name: str, fields: Mapping[str, Reader]) -> dict[str, Any]:
    """The known fields of an object, by their Go names; absent and null ones are missing. Raises GoJsonError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        _wrong(value, name, "struct")
    by_folded = {field.lower(): field for field in fields}
    found: dict[str, Any] = {}
    for key, item in value.items():
        field = by_folded.get(key.lower())
        if field is not None and item is not None:
            found[field] = fields[field](item, f"{name}.{field}")
    return found


def text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        _wrong(value, path, "string")
    return value


def int64(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT64 <= value < _INT64:
        _wrong(value, path, "int64")
    return value


def list_of(read: Reader, zero: Any, wanted: str) -> Reader:
    """A list whose nulls are `zero`, as Go leaves them; `wanted` is Go's type of an item."""

    def read_list(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            _wrong(value, path, f"[]{wanted}")
        return [zero if item is None else read(item, path) for item in value]

    return read_list


def map_of(read: Reader, zero: Any, wanted: str) -> Reader:
    """A map whose nulls are `zero`, as Go leaves them; `wanted` is Go's type of a value."""

    def read_map(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            _wrong(value, path, f"map[string]{wanted}")
        return {key: zero if item is None else read(item, path) for key, item in value.items()}

    return read_map


def _wrong(value: Any, path: str, wanted: str) -> NoReturn:
    kinds = {bool: "bool", str: "string", dict: "object", list: "array"}
    kind = kinds.get(type(value), f"number {value}" if wanted == "int64" else "number")
    raise GoJsonError(f"json: cannot unmarshal {kind} into Go struct field {path} of type {wanted}")
