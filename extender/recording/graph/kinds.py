"""What writing and reading of graphs have in common: lines, and which classes may be named."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterable
from typing import Any

import msgspec

from algorithm.model import Node, Pod

#: Objects of one line, and of one graph.
OBJECTS_OF_LINE, MOST_OBJECTS = 400, 50_000_000
#: Attributes that pydantic's models have beside their fields.
PYDANTIC = frozenset({"__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"})
#: Records of which there are very many: each is one object, whatever it has inside.
RECORDS: dict[str, type[Any]] = {"Pod": Pod, "Node": Node}
#: Classes of Python itself that may be named.
BUILTIN: dict[str, type] = {
    each.__name__: each for each in (int, float, str, bool, bytes, list, dict, set, tuple, frozenset, object)
}


class GraphError(ValueError):
    """The graph cannot be written or read; the message says what and where."""


class Line(msgspec.Struct, omit_defaults=True):
    """A few objects, after the kinds that they are the first to have. Objects and kinds are numbered in their order."""

    objects: list[list[Any]]
    kinds: list[list[Any]] = []


class Kinds:
    """Which classes and functions may be named: those of these packages and what is below them."""

    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = tuple(packages)

    def has(self, module: str) -> bool:
        return any(module == each or module.startswith(f"{each}.") for each in self._packages)

    def find(self, module: str, name: str) -> Any:
        """The class or function of this name. Raises GraphError."""
        if not self.has(module):
            raise GraphError(f"{module}:{name} is in none of the packages {', '.join(self._packages)}")
        try:
            found: Any = sys.modules.get(module) or importlib.import_module(module)
            for part in name.split("."):
                if part.startswith("__"):
                    raise AttributeError(part)  # noqa: TRY301
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise GraphError(f"there is no {module}:{name} in this program") from error
        if not isinstance(found, type | types.FunctionType) or found.__module__ != module:
            raise GraphError(f"{module}:{name} is no class and no function of its module")
        return found


def slots_of(kind: type) -> tuple[str, ...]:
    """The slots of a class and its bases, by the names that attributes really have."""
    found: list[str] = []
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{each.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__"):
                found.append(name)
    return tuple(found)
