"""Compares two graphs of objects: everything is equal, and nothing that can change is in both.

So two engines are compared that have come to the same point on different ways, or an engine with its copy. What an
algorithm keeps for itself may be left out: by its contract that follows from what was allocated, which is compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

import msgspec

from algorithm.interface import SchedulerAlgorithm, SuggestedNodes

_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_ATOMS = (str, bytes, int, float, type(None), Enum, msgspec.Struct, SuggestedNodes, frozenset, type, *_FUNCTIONS)
#: 1 and 1.0 are the same: JSON does not tell them apart.
_NUMBERS = (int, float)
#: What a copy of an engine does not have: algorithms that are being prepared.
PREPARATIONS = frozenset({"SchedulerStateMachine.preparations", "Reconfiguring._preparations"})

#: How an object was reached: from which other one, and by what. As a text it is only wanted where two differ.
_Path = tuple[Any, str]


def difference(one: Any, other: Any, *, apart: Collection[str] = (), algorithms: bool = False) -> str:
    """Where they differ first, or share what can change; "" if nowhere. Without `algorithms`, algorithms are only
    looked at for being two.

    `apart` names attributes that are left out, with their class.
    """
    rest: list[tuple[_Path, Any, Any]] = [((None, "it"), one, other)]
    met: dict[tuple[int, int], tuple[Any, Any]] = {}  # with the objects, so that no other one gets the `id` of one
    #: The twin of each object that can change, in both directions: what is one object here is one object there.
    twins: dict[int, int] = {}
    twins_back: dict[int, int] = {}
    while rest:
        path, a, b = rest.pop()
        if type(a) is not type(b) and not (type(a) in _NUMBERS and type(b) in _NUMBERS):
            return f"{_text(path)}: {type(a).__name__} and {type(b).__name__}"
        if isinstance(a, _ATOMS):
            if a != b:
                return f"{_text(path)}: {a!r} and {b!r}"
            continue
        if _is_frozen(a) and a == b:
            continue
        if (id(a), id(b)) in met:
            continue
        met[id(a), id(b)] = a, b
        if isinstance(a, tuple):
            if len(a) != len(b):
                return f"{_text(path)}: {len(a)} and {len(b)}"
            rest += [((path, f"[{at}]"), x, y) for at, (x, y) in enumerate(zip(a, b, strict=True))]
            continue
        if a is b:
            return f"{_text(path)}: {type(a).__name__} is in both"
        if twins.setdefault(id(a), id(b)) != id(b) or twins_back.setdefault(id(b), id(a)) != id(a):
            return f"{_text(path)}: one {type(a).__name__}, and two that are equal"
        if isinstance(a, SchedulerAlgorithm) and not algorithms:
            continue
        if wrong := _parts(path, a, b, rest, apart):
            return f"{_text(path)}{wrong}"
    return ""


def _text(path: _Path | None) -> str:
    found: list[str] = []
    while path is not None:
        path, by = path
        found.append(by)
    return "".join(reversed(found))


def _parts(path: _Path, a: Any, b: Any, rest: list[tuple[_Path, Any, Any]], apart: Collection[str]) -> str:
    """Put the parts of two objects to the rest. Returns what is wrong already; "" if nothing is."""
    if isinstance(a, Mapping):
        keys, others = list(a), list(b)
        if keys != others and (len(keys) != len(others) or not any(map(_is_unequal_to_copies, keys))):
            return f": keys {keys} and {others}"
        rest += [((path, f"[{key}]"), a[key], b[other]) for key, other in zip(keys, others, strict=True)]
        rest += [((path, ", a key"), key, other) for key, other in zip(keys, others, strict=True)]
    elif isinstance(a, list | deque):
        if len(a) != len(b):
            return f": {len(a)} and {len(b)}"
        rest += [((path, f"[{at}]"), x, y) for at, (x, y) in enumerate(zip(a, b, strict=True))]
    elif isinstance(a, set):
        return "" if a == b else f": {a} and {b}"
    else:
        names = [*getattr(a, "__dict__", ()), *(name for kind in type(a).__mro__ for name in _slots(kind))]
        if not names:
            return f": a {type(a).__name__} cannot be compared"
        kind = type(a).__name__
        rest += [
            ((path, f".{each}"), getattr(a, each), getattr(b, each)) for each in names if f"{kind}.{each}" not in apart
        ]
    return ""


def _is_unequal_to_copies(key: object) -> bool:
    return type(key).__eq__ is object.__eq__ or isinstance(key, tuple)


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_frozen(value: object) -> bool:
    made = getattr(type(value), "__dataclass_params__", None)
    return made is not None and made.frozen
