"""Finds what two hives share that could change."""

from __future__ import annotations

from collections.abc import Iterator
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
        if isinstance(thing, _ATOMS) or type(thing) in _UNCHANGING or id(thing) in found:
            continue
        found[id(thing)] = thing
        rest += _inside(thing)
    return {key: thing for key, thing in found.items() if not isinstance(thing, tuple)}


def _inside(thing: Any) -> Iterator[Any]:
    if isinstance(thing, dict):
        yield from thing
        yield from thing.values()
    elif isinstance(thing, (list, tuple, set)):
        yield from thing
    names = (name for kind in type(thing).__mro__ for name in kind.__dict__.get("__slots__", ()))
    for name in (*names, *getattr(thing, "__dict__", ())):
        if name not in REPLACED and not name.startswith("_copy") and hasattr(thing, name):
            yield getattr(thing, name)


def shared(one: Any, other: Any) -> list[Any]:
    """What both can reach."""
    mine = changeable(one)
    return [thing for key, thing in changeable(other).items() if key in mine]
