"""Whether a schema may be that of a custom resource: structural, with nothing in it that this server cannot keep.

Rules and texts follow k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation and pkg/apiserver/schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from extender.embedded.apiserver.custom.schema import (
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    PRESERVE,
    Schema,
    pattern,
    validate,
)
from extender.embedded.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
#: A schema may not be deeper: what walks it calls itself.
_DEEPEST = 64
#: Real servers take these; here they would not be checked, so a definition with them is refused.
_NOT_HERE = ("allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations")
_NEVER = {
    "$ref": "$ref is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "patternProperties": "patternProperties is not supported",
    "additionalItems": "additionalItems is not supported",
    "id": "id is not supported",
}
#: Field -> the type of its value.
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "type": str,
    "format": str,
    "title": str,
    "description": str,
    "pattern": str,
    "nullable": bool,
    "exclusiveMinimum": bool,
    "exclusiveMaximum": bool,
    "uniqueItems": bool,
    "minimum": (int, float),
    "maximum": (int, float),
    "multipleOf": (int, float),
    "minLength": int,
    "maxLength": int,
    "minItems": int,
    "maxItems": int,
    "minProperties": int,
    "maxProperties": int,
    "required": list,
    "enum": list,
    "properties": dict,
    "additionalProperties": (bool, dict),
    "items": dict,
    PRESERVE: bool,
    INT_OR_STRING: bool,
    "x-kubernetes-embedded-resource": bool,
    LIST_TYPE: str,
    LIST_KEYS: list,
    "x-kubernetes-map-type": str,
}


def check_schema(schema: Any, path: str) -> Iterator[FieldError]:
    """Every fault of the schema of a whole object; `path` is where it stands in the definition."""
    if not isinstance(schema, dict):
        yield invalid_value(path, type(schema).__name__, "must be an object")
        return
    faults = list(_check(schema, path, depth=0))
    if schema.get("type") is None:
        yield required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield invalid_value(f"{path}.type", schema["type"], "must be object at the root")
    yield from faults


def _check(schema: Schema, path: str, *, depth: int) -> Iterator[FieldError]:
    if depth > _DEEPEST:
        yield forbidden_field(path, f"the embedded API server takes schemas up to {_DEEPEST} levels deep")
        return
    wrong = list(_wrong_types(schema, path))
    yield from wrong
    if wrong:
        return
    yield from _not_supported(schema, path)
    kind = schema.get("type")
    if kind is not None and kind not in _TYPES:
        yield unsupported_value(f"{path}.type", kind, _TYPES)
    elif kind is None and depth and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        what = "array items" if path.endswith(".items") else "object fields"
        yield required(f"{path}.type", f"must not be empty for specified {what}")
    yield from _objects(schema, path, depth)
    yield from _arrays(schema, path, depth)
    if "pattern" in schema:
        try:
            pattern(schema["pattern"])
        except re.error as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", schema["pattern"], text)
    if "default" in schema:
        for fault in validate(schema, schema["default"]):
            yield FieldError(f"{path}.default{'.' if fault.path else ''}{fault.path}", fault.reason, fault.text)


def _wrong_types(schema: Schema, path: str) -> Iterator[FieldError]:
    for name, kinds in _FIELDS.items():
        if name in schema and (
            not isinstance(schema[name], kinds) or (isinstance(schema[name], bool) and kinds in (int, (int, float)))
        ):
            yield invalid_value(f"{path}.{name}", type(schema[name]).__name__, "has the wrong type")


def _not_supported(schema: Schema, path: str) -> Iterator[FieldError]:
    for name, text in _NEVER.items():
        if name in schema:
            yield forbidden_field(f"{path}.{name}", text)
    for name in _NOT_HERE:
        if name in schema:
            yield forbidden_field(f"{path}.{name}", "the embedded API server does not check it, and so refuses it")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", text)


def _objects(schema: Schema, path: str, depth: int) -> Iterator[FieldError]:
    others = schema.get("additionalProperties")
    if "properties" in schema and others:
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", text)
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.properties[{name}]"
        if not isinstance(inner, dict):
            yield invalid_value(where, type(inner).__name__, "must be an object")
        elif depth or name not in ("apiVersion", "kind", "metadata"):
            yield from _check(inner, where, depth=depth + 1)
    if isinstance(others, dict):
        yield from _check(others, f"{path}.additionalProperties", depth=depth + 1)


def _arrays(schema: Schema, path: str, depth: int) -> Iterator[FieldError]:
    inner = schema.get("items")
    if schema.get("type") == "array" and inner is None:
        yield required(f"{path}.items", "must be specified")
    keys, kind = schema.get(LIST_KEYS, []), schema.get(LIST_TYPE)
    if kind not in (None, "atomic", "set", "map"):
        yield unsupported_value(f"{path}.{LIST_TYPE}", kind, ("atomic", "map", "set"))
    if kind == "map" and not keys:
        yield required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    if inner is None:
        return
    if kind == "map" and inner.get("type") != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        yield invalid_value(f"{path}.items.type", inner.get("type", ""), text)
    for index, key in enumerate(keys if kind == "map" and inner.get("type") == "object" else ()):
        if key not in inner.get("properties", {}):
            text = f"entries must all be names of item properties if {LIST_TYPE} is map"
            yield invalid_value(f"{path}.{LIST_KEYS}[{index}]", key, text)
        elif key not in inner.get("required", ()) and "default" not in inner["properties"][key]:
            text = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", text)
    yield from _check(inner, f"{path}.items", depth=depth + 1)
