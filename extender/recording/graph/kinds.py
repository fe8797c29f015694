"""What writing and reading of graphs have in common: lines, and which classes may be named."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterable
from typing import Any

import msgspec

from algorithm.model import Node, Pod

#: Objects of one line, and of one graph. A cluster of 150,000 pods has some three million.
OBJECTS_OF_LINE, MOST_OBJECTS = 400, 20_000_000
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


class TooLargeError(GraphError):
    """The graph would take more memory than its reader may use."""


class Line(msgspec.Struct, omit_defaults=True):
    """A few objects, after the kinds that they are the first to have. Objects and kinds are numbered in their order.

    A tuple is the number of an object.
    """

    objects: list[list[bool | int | float | str | tuple[int] | dict[str, Any] | None]]
    kinds: list[list[Any]] = []


class Kinds:
    """Which classes and functions may be named: those of these packages and what is below them.

    `without`: modules of them that nothing in a graph may name, since their functions load plug-ins, start processes,
    or read and write files.
    """

    def __init__(self, packages: Iterable[str], *, without: Iterable[str] = ()) -> None:
        self._packages, self._without = tuple(packages), tuple(without)

    def has(self, module: str) -> bool:
        return _is_below(module, self._packages) and not _is_below(module, self._without) and "__main__" not in module

    def find(self, module: str, name: str) -> Any:
        """The class or function of this name. Raises GraphError."""
        if not self.has(module):
            but = f", or in {', '.join(self._without)}" if self._without else ""
            raise GraphError(f"{module}:{name} is in none of the packages {', '.join(self._packages)}{but}")
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


def _is_below(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


def hidden_method(kind: type, names: Iterable[str]) -> str | None:
    """The first of these names that is a method or a property of the class.

    An attribute of that name would be called in place of the method, or would run the property's setter.
    """
    for name in names:
        found = next((each.__dict__[name] for each in kind.__mro__ if name in each.__dict__), None)
        if isinstance(found, types.FunctionType | classmethod | staticmethod | property):
            return name
    return None


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
