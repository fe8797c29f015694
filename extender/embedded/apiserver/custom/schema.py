"""Structural schemas at work: what they drop from an object, what they fill in, and what they refuse.

A schema is the plain JSON of `openAPIV3Schema`, which `structural.py` has accepted. Rules and texts follow
k8s.io/apiextensions-apiserver pkg/apiserver/schema and k8s.io/kube-openapi pkg/validation. All functions take the path
of the value as people read it: `spec.ports[0].name`, "" for the whole object.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from extender.embedded.apiserver.errors import FieldError, duplicate, invalid_value, required, unsupported_value
from extender.embedded.apiserver.objects import encode

Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE, LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
#: Fields of every object that no schema need declare.
_TYPE_META = ("apiVersion", "kind", "metadata")
_INTEGERS = {"int32": 2**31, "int64": 2**63, "": 2**63}


def prune(schema: Schema, value: Any, *, is_root: bool = True) -> list[str]:
    """Drop the fields that the schema does not declare, in place. Returns their paths, in order of the text."""
    return sorted(_prune(schema, value, "", keeps=False, is_object=is_root))


def _prune(schema: Schema, value: Any, path: str, *, keeps: bool, is_object: bool) -> Iterator[str]:
    """`keeps`: a schema further out keeps unknown fields. `is_object`: an object of its own, with metadata."""
    keeps = bool(schema.get(PRESERVE)) or keeps
    is_object = is_object or bool(schema.get(EMBEDDED))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _prune(schema.get("items", {}), item, f"{path}[{index}]", keeps=keeps, is_object=False)
    if not isinstance(value, dict):
        return
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key in list(value):
        where = f"{path}.{key}".lstrip(".")
        if is_object and key in _TYPE_META:
            continue
        inner = fields.get(key, others if isinstance(others, Mapping) else None)
        if inner is not None:
            # What is declared is declared whole: unknown fields below it are kept only if its own schema says so.
            yield from _prune(inner, value[key], where, keeps=False, is_object=False)
        elif not keeps and others is not True:
            del value[key]
            yield where


def set_defaults(schema: Schema, value: Any) -> None:
    """Fill in the defaults, in place. null goes where it is not allowed, and then counts as absent."""
    if isinstance(value, list):
        for item in value:
            set_defaults(schema.get("items", {}), item)
    if not isinstance(value, dict):
        return
    fields = schema.get("properties", {})
    for key, inner in fields.items():
        if key in value and value[key] is None and not inner.get("nullable"):
            del value[key]
        if key not in value and "default" in inner:
            value[key] = copy.deepcopy(inner["default"])
        if key in value:
            set_defaults(inner, value[key])
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        for key in [each for each in value if each not in fields]:
            if value[key] is None and not others.get("nullable"):
                del value[key]
            else:
                set_defaults(others, value[key])


def validate(schema: Schema, value: Any, path: str = "") -> Iterator[FieldError]:
    """Every field at fault, in the order of the field names."""
    if value is None and schema.get("nullable"):
        return
    expected = _types(schema)
    actual = _type(value)
    if expected and actual not in expected and not (actual == "integer" and "number" in expected):
        text = f"{path} in body must be of type {','.join(expected)}: {_shown(actual)}"
        yield FieldError(path, "FieldValueTypeInvalid", f"Invalid value: {_shown(actual)}: {text}")
        return
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported_value(path, value, [str(each) for each in schema["enum"]])
    rules = _RULES.get(actual)
    if rules:
        yield from rules(schema, value, path)


def _types(schema: Schema) -> tuple[str, ...]:
    if schema.get(INT_OR_STRING):
        return "integer", "string"
    return (schema["type"],) if "type" in schema else ()


def _type(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
    return kinds.get(type(value), "null")


def _shown(text: str) -> str:
    return f'"{text}"'


def _number(schema: Schema, value: float, path: str) -> Iterator[FieldError]:
    if "minimum" in schema:
        least, open_end = schema["minimum"], schema.get("exclusiveMinimum")
        if value < least or (open_end and value == least):
            yield _in_body(path, value, f"should be greater than {'' if open_end else 'or equal to '}{least}")
    if "maximum" in schema:
        most, open_end = schema["maximum"], schema.get("exclusiveMaximum")
        if value > most or (open_end and value == most):
            yield _in_body(path, value, f"should be less than {'' if open_end else 'or equal to '}{most}")
    if "multipleOf" in schema and value % schema["multipleOf"]:
        yield _in_body(path, value, f"should be a multiple of {schema['multipleOf']}")
    limit = _INTEGERS.get(schema.get("format", ""), 0) if "integer" in _types(schema) else 0
    if limit and not -limit <= value < limit:
        yield invalid_value(path, value, f"must be of type integer with format {schema.get('format', 'int64')}")


def _string(schema: Schema, value: str, path: str) -> Iterator[FieldError]:
    if len(value) < schema.get("minLength", 0):
        yield _in_body(path, value, f"should be at least {schema['minLength']} chars long")
    if len(value) > schema.get("maxLength", len(value)):
        text = f"Too long: may not be more than {schema['maxLength']} bytes"
        yield FieldError(path, "FieldValueTooLong", text)
    if "pattern" in schema and not pattern(schema["pattern"]).search(value):
        yield _in_body(path, value, f"should match '{schema['pattern']}'")
    check = _FORMATS.get(schema.get("format", ""))
    if check and not check(value):
        text = f"{path} in body must be of type {schema['format']}: {_shown(value)}"
        yield FieldError(path, "FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {text}")


def _array(schema: Schema, value: list[Any], path: str) -> Iterator[FieldError]:
    if len(value) < schema.get("minItems", 0):
        yield _in_body(path, len(value), f"should have at least {schema['minItems']} items")
    if len(value) > schema.get("maxItems", len(value)):
        yield _too_many(path, len(value), schema["maxItems"])
    inner = schema.get("items", {})
    for index, item in enumerate(value):
        yield from validate(inner, item, f"{path}[{index}]")
    yield from _duplicates(schema, value, path)


def _duplicates(schema: Schema, value: list[Any], path: str) -> Iterator[FieldError]:
    if schema.get(LIST_TYPE) not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        identity = item
        if schema[LIST_TYPE] == "map":
            identity = {key: item[key] for key in schema[LIST_KEYS] if key in item} if isinstance(item, dict) else item
        text = encode(identity)
        if text in seen:
            yield duplicate(f"{path}[{index}]", identity)
        seen.add(text)


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[FieldError]:
    if len(value) < schema.get("minProperties", 0):
        yield _in_body(path, len(value), f"should have at least {schema['minProperties']} properties")
    if len(value) > schema.get("maxProperties", len(value)):
        yield _too_many(path, len(value), schema["maxProperties"])
    for key in schema.get("required", ()):
        if key not in value:
            yield required(f"{path}.{key}".lstrip("."))
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key in sorted(value):
        inner = fields.get(key, others if isinstance(others, Mapping) else None)
        if inner is not None:
            yield from validate(inner, value[key], f"{path}.{key}".lstrip("."))


def _in_body(path: str, value: Any, text: str) -> FieldError:
    return invalid_value(path, value, f"{path} in body {text}")


def _too_many(path: str, count: int, most: int) -> FieldError:
    return FieldError(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """A pattern as Go's RE2 reads it, as far as Python's syntax is the same. Raises re.error."""
    return re.compile(text.replace(r"\z", r"\Z"))


def _is_date_time(text: str) -> bool:
    if not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d", text):
        return False
    try:
        return datetime.fromisoformat(text.replace("z", "Z")).tzinfo is not None
    except ValueError:
        return False


def _is_date(text: str) -> bool:
    try:
        return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text)) and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


#: The formats that are checked; all others say something to people only.
_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "date": _is_date,
    "uuid": lambda text: bool(re.fullmatch(r"(?i)[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", text)),
}

_RULES: Mapping[str, Callable[[Schema, Any, str], Iterator[FieldError]]] = {
    "integer": _number,
    "number": _number,
    "string": _string,
    "array": _array,
    "object": _object,
}
