"""Compares the fields of two schemas: those of pydantic's models, and those that Kubernetes gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]


def schema(node: Object, parts: Object) -> Object:
    """A field of pydantic's schema without references, and without the null that stands for "absent"."""
    for each in node.get("anyOf", ()):
        if each.get("type") != "null":
            return schema({**node, "anyOf": (), **each}, parts)
    if "$ref" in node:
        return {**parts[node["$ref"].rpartition("/")[2]], "default": node.get("default")}
    return node


def leaves(node: Object, parts: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    for name, given in node["properties"].items():
        found, place = schema(given, parts), f"{path}.{name}".lstrip(".")
        if "properties" in found:
            yield from leaves(found, parts, place)
        else:
            yield place, found


def in_whole_numbers(field: Object) -> Object:
    """What both say of a field. Specifications of Kubernetes have no fractions: an object's numbers are whole ones."""
    kept = ("enum", "maximum", "minLength", "maxLength", "pattern", "maxItems", "minProperties", "maxProperties")
    said = {name: field[name] for name in kept if name in field}
    if field.get("default") not in (None, {}, []):  # maps and lists are empty by default in both
        said["default"] = field["default"]
    is_number = field.get("type") in ("number", "integer")
    said["type"] = "number" if is_number else field.get("type")
    if is_number:
        least = field.get("minimum", field.get("exclusiveMinimum", 0))
        said["minimum"] = 1 if 0 < least < 1 or "exclusiveMinimum" in field else least
    return said


def put(into: Object, path: str, value: Any) -> None:
    *way, last = path.split(".")
    for name in way:
        into = into.setdefault(name, {})
    into[last] = value
