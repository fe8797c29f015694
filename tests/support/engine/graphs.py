"""Compares two graphs of objects: everything is equal, and nothing that can change is in both."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

import msgspec

from algorithm.interface import SchedulerAlgorithm, SuggestedNodes

_ATOMS = (str, bytes, int, float, type(None), Enum, msgspec.Struct, SuggestedNodes, frozenset, type)


def difference(one: Any, other: Any, *, apart: Collection[str] = ()) -> str:
    """Where they differ first, or share what can change; "" if nowhere. Algorithms are only looked at for being two.

    `apart` names attributes that are left out, with their class.
    """
    rest: list[tuple[str, Any, Any]] = [("it", one, other)]
    met: set[tuple[int, int]] = set()
    while rest:
        path, a, b = rest.pop()
        if type(a) is not type(b):
            return f"{path}: {type(a).__name__} and {type(b).__name__}"
        if isinstance(a, _ATOMS) or _is_frozen(a):
            if a != b:
                return f"{path}: {a!r} and {b!r}"
            continue
        if (id(a), id(b)) in met:
            continue
        met.add((id(a), id(b)))
        if isinstance(a, tuple):
            rest += [(f"{path}[{at}]", x, y) for at, (x, y) in enumerate(zip(a, b, strict=True))]
            continue
        if a is b:
            return f"{path}: {type(a).__name__} is in both"
        if isinstance(a, SchedulerAlgorithm):
            continue
        if wrong := _parts(path, a, b, rest, apart):
            return wrong
    return ""


def _parts(path: str, a: Any, b: Any, rest: list[tuple[str, Any, Any]], apart: Collection[str]) -> str:
    if isinstance(a, Mapping):
        if list(a) != list(b):
            return f"{path}: keys {list(a)} and {list(b)}"
        rest += [(f"{path}[{key}]", a[key], b[key]) for key in a]
    elif isinstance(a, list | deque):
        if len(a) != len(b):
            return f"{path}: {len(a)} and {len(b)}"
        rest += [(f"{path}[{at}]", x, y) for at, (x, y) in enumerate(zip(a, b, strict=True))]
    elif isinstance(a, set):
        return "" if a == b else f"{path}: {a} and {b}"
    else:
        names = [*getattr(a, "__dict__", ()), *(name for kind in type(a).__mro__ for name in _slots(kind))]
        if not names:
            return f"{path}: a {type(a).__name__} cannot be compared"
        kind = type(a).__name__
        rest += [
            (f"{path}.{each}", getattr(a, each), getattr(b, each)) for each in names if f"{kind}.{each}" not in apart
        ]
    return ""


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_frozen(value: object) -> bool:
    made = getattr(type(value), "__dataclass_params__", None)
    return made is not None and made.frozen
