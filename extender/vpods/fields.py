"""Decodes the values at a few paths of a JSON object, and skips the rest of it.

An object of a foreign resource can be large, and only a few of its fields matter. Decoding only these takes a quarter
of the time of decoding the whole object, and no memory for the other fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from extender.core.field_paths import MISSING, FieldPath

#: What stands in a decoded object for a field that is not there.
_NONE = msgspec.Raw(b"")


class FieldDecoder:
    """Decodes the values at these paths. A value that is an object itself is decoded whole."""

    def __init__(self, paths: Iterable[FieldPath]) -> None:
        self._paths = tuple(paths)
        shape, self._routes = _shape(self._paths)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)

    def decode(self, body: bytes) -> list[msgspec.Raw | None]:
        """Return the JSON at each path, None where there is none. Raises msgspec.DecodeError for invalid JSON."""
        try:
            found = self._decoder.decode(body)
        except msgspec.ValidationError:
            return self._decode_whole(body)
        return [_follow(found, *route) for route in self._routes]

    def _decode_whole(self, body: bytes) -> list[msgspec.Raw | None]:
        """For an object that has something else than an object somewhere on the way: such a path finds nothing."""
        whole = msgspec.json.decode(body)
        return [_encoded(path.find(whole)) for path in self._paths]


#: Attributes that lead to a value, and the path within it: an item of a list, or what another path has cut short.
_Route = tuple[tuple[str, ...], FieldPath]


def _shape(paths: tuple[FieldPath, ...]) -> tuple[type, list[_Route]]:
    """Return the type of an object with these paths, and the route to the value of each."""
    tree: dict[str, Any] = {}
    for path in paths:
        _grow(tree, path.steps)
    return _struct(tree), [_route(tree, path.steps) for path in paths]


def _grow(tree: dict[str, Any], steps: tuple[str | int, ...]) -> None:
    """Add a path to the tree of names. A leaf is an empty tree; a path that ends, or meets a list, is one."""
    first, *rest = steps
    if isinstance(first, int):
        return  # the root is no list
    if not rest or isinstance(rest[0], int):
        tree[first] = {}
    elif tree.get(first) != {}:
        _grow(tree.setdefault(first, {}), tuple(rest))


def _struct(tree: dict[str, Any]) -> type:
    names = {f"f{index}": name for index, name in enumerate(tree)}
    fields: list[tuple[str, Any, Any]] = []
    for attribute, name in names.items():
        inner = tree[name]
        fields.append((attribute, _struct(inner) | None, None) if inner else (attribute, msgspec.Raw, _NONE))
    return msgspec.defstruct("Fields", fields, rename=names, gc=False)


def _route(tree: dict[str, Any], steps: tuple[str | int, ...]) -> _Route:
    attributes = []
    while tree and steps and steps[0] in tree:
        attributes.append(f"f{list(tree).index(str(steps[0]))}")
        tree, steps = tree[str(steps[0])], steps[1:]
    return tuple(attributes), FieldPath(steps)


def _follow(found: Any, attributes: tuple[str, ...], rest: FieldPath) -> msgspec.Raw | None:
    for attribute in attributes:
        if found is None:
            return None
        found = getattr(found, attribute)
    if not isinstance(found, msgspec.Raw) or found is _NONE:
        return None
    return _encoded(rest.find(msgspec.json.decode(found))) if rest.steps else found


def _encoded(value: Any) -> msgspec.Raw | None:
    return None if value is MISSING else msgspec.Raw(msgspec.json.encode(value))
