"""Exact copies, for what-if: the same cells, books and groups, and the same order between equals.

Cells point to each other in all directions, so a copy that follows pointers (copy.deepcopy) would recurse as deep as
the cluster is large. Here objects are first created empty, then filled one after the other.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

T = TypeVar("T")

_ATOMS: tuple[type[Any], ...] = (str, bytes, int, float, type(None))
#: Objects of these modules are copied attribute by attribute.
_OURS = "algorithm.hived."


def independent_copy(thing: T, *, shared: tuple[type[Any], ...]) -> T:
    """A copy that shares nothing with the original but texts, numbers, and instances of `shared`, which never change.

    Objects of this package are copied attribute by attribute; each once, however many point to it.
    """
    return _Copier(shared).copy(thing)


class _Copier:
    def __init__(self, shared: tuple[type[Any], ...]) -> None:
        self._shared = (*_ATOMS, *shared)
        #: What is shared, by exact type, as far as it was met.
        self._is_shared: dict[type[Any], bool] = {}
        self._declared: dict[type[Any], tuple[str, ...]] = {}
        self._twins: dict[int, Any] = {}
        self._empty: list[tuple[Any, Any]] = []

    def copy(self, thing: T) -> T:
        twin: T = self._twin(thing)
        while self._empty:
            self._fill(*self._empty.pop())
        return twin

    def _twin(self, thing: Any) -> Any:
        """The copy, which may still be empty."""
        kind = type(thing)
        if kind not in self._is_shared:
            self._is_shared[kind] = isinstance(thing, self._shared)
        if self._is_shared[kind]:
            return thing
        twin = self._twins.get(id(thing))
        if twin is None:
            twin = self._twins[id(thing)] = self._made(thing)
        return twin

    def _made(self, thing: Any) -> Any:
        kind: Any = type(thing)
        if kind is tuple:
            return tuple(map(self._twin, thing))
        if not isinstance(thing, (list, dict)) and not kind.__module__.startswith(_OURS):
            return deepcopy(thing)
        twin = kind.__new__(kind)
        self._empty.append((thing, twin))
        return twin

    def _fill(self, thing: Any, twin: Any) -> None:
        if isinstance(thing, list):
            twin.extend(map(self._twin, thing))
        elif isinstance(thing, dict):
            for key, value in thing.items():
                twin[self._twin(key)] = self._twin(value)
        else:
            for name in (*self._slots(type(thing)), *getattr(thing, "__dict__", ())):
                # Some of our records are frozen.
                object.__setattr__(twin, name, self._twin(getattr(thing, name)))

    def _slots(self, kind: type[Any]) -> tuple[str, ...]:
        if kind not in self._declared:
            self._declared[kind] = tuple(name for each in kind.__mro__ for name in each.__dict__.get("__slots__", ()))
        return self._declared[kind]
