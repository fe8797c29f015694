"""Finds what two hives share that could change."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from algorithm.hived.algorithm import _UNCHANGING
from algorithm.interface import SuggestedNodes

#: Mappings that are replaced and never changed in place, so copies share them.
REPLACED = {"used", "pods", "written", "slots", "preempting"}
_ATOMS = (str, bytes, int, float, type(None), frozenset, msgspec.Struct, SuggestedNodes, type)


def changeable(root: Any) -> dict[int, Any]:
    """All objects that can be reached and could change, by `id`."""
    found: dict[int, Any] = {}
    rest = [root]
    while rest:
        thing = rest.pop()
        if id(thing) not in found and not _is_fixed(type(thing)):
            found[id(thing)] = thing
            rest += _inside(thing)
    return {key: thing for key, thing in found.items() if not isinstance(thing, tuple)}


@cache
def _is_fixed(kind: type) -> bool:
    """Whether objects of this type never change."""
    return issubclass(kind, _ATOMS) or kind in _UNCHANGING


@cache
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(filter(_counts, (name for each in kind.__mro__ for name in each.__dict__.get("__slots__", ()))))


def _counts(name: str) -> bool:
    return name not in REPLACED and not name.startswith("_copy")


def _inside(thing: Any) -> list[Any]:
    inside = [getattr(thing, name, None) for name in _slots(type(thing))]
    inside += [value for name, value in getattr(thing, "__dict__", {}).items() if _counts(name)]
    if isinstance(thing, dict):
        inside += thing
        inside += thing.values()
    elif isinstance(thing, (list, tuple, set)):
        inside += thing
    return inside


def shared(one: Any, other: Any) -> list[Any]:
    """What both can reach."""
    mine = changeable(one)
    return [thing for key, thing in changeable(other).items() if key in mine]
