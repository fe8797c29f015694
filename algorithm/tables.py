"""Tables that a copy in pieces can follow, and watched records, so that no piece takes long.

A copy in pieces shows the moment of its last piece, so it has to follow the changes in between:

* a `Table` is a dictionary that may be large. It is copied early, which takes some 20 ns for each entry;
  from then on each change is made to the copy as well. In the last piece it costs nothing.
* a *record* is copied early too, and gets a class that notices its first change: then it is copied again.

Both cost nothing while no copy is made, because it is the class of the object that is replaced meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Self, TypeVar, cast

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")

_NOTHING: Any = object()


class Table(dict[K, V]):
    """A dictionary that a copy can follow. Keys and values are records, or never change."""

    __slots__ = ("_copy", "_on_set")

    #: While the table is followed: the table to which each change is made as well, and what hears of new values.
    _copy: Table[K, V]
    _on_set: Callable[[V], object]

    def follow(self, on_set: Callable[[V], object] | None = None) -> Table[K, V]:
        """Return a copy that is equal to this table until `unfollow`. `on_set` is called with each value that is set.

        Raises RuntimeError if another copy follows it.
        """
        if self.is_followed:
            raise RuntimeError("another copy of this table is being made")
        self._copy, self._on_set = self.copy(), on_set or _ignore
        self.__class__ = _Followed
        return self._copy

    def unfollow(self) -> None:
        """Leave the copy, if there is one, as it is."""
        if self.is_followed:
            self.__class__ = Table
            del self._copy, self._on_set

    @property
    def is_followed(self) -> bool:
        return type(self) is _Followed

    def copy(self) -> Table[K, V]:
        """An independent table, which no copy follows."""
        return Table(self)


class _Followed(Table[K, V]):
    """Makes each change to the copy as well."""

    __slots__ = ()

    def __setitem__(self, key: K, value: V) -> None:
        dict.__setitem__(self, key, value)
        self._copy[key] = value
        self._on_set(value)

    def __delitem__(self, key: K) -> None:
        dict.__delitem__(self, key)
        del self._copy[key]

    def pop(self, key: K, default: Any = _NOTHING) -> Any:
        if default is _NOTHING:
            self._copy.pop(key, None)
            return dict.pop(self, key)
        self._copy.pop(key, None)
        return dict.pop(self, key, default)

    def popitem(self) -> tuple[K, V]:
        self._copy.popitem()
        return dict.popitem(self)

    def clear(self) -> None:
        dict.clear(self)
        self._copy.clear()

    def setdefault(self, key: K, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[override, misc]
        self.update(other)
        return self


class Followers:
    """The copies of tables that one copy in pieces follows."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Table[Any, Any], Table[Any, Any]]] = {}

    def follow(self, table: Table[Any, V], on_set: Callable[[V], object] | None = None) -> None:
        """Begin to follow it, unless that is done already. `on_set` is called with each value that is set."""
        if id(table) not in self._copies:
            self._copies[id(table)] = table, table.follow(on_set)

    def taken(self, table: Table[K, V]) -> Table[K, V]:
        """A copy of the table as it is now; that which follows it, if there is one. To be called once for each."""
        followed = self._copies.get(id(table))
        return followed[1] if followed is not None else table.copy()

    def unfollow(self) -> None:
        """Leave all copies as they are now."""
        for table, _ in self._copies.values():
            table.unfollow()


def watched_kind(
    kind: type[R], changed: set[R], *, methods: Iterable[str] = (), contents: Iterable[str] = ()
) -> type[R]:
    """A class for records of `kind`, whose attributes are all slots: it notices the first change of a record.

    The record is then put into `changed`, and is an ordinary one again. A change is an attribute that is set, a call of
    one of the `methods`, or an attribute of `contents` that is read: its value may be changed in place.
    """

    def notice(record: Any) -> None:
        record.__class__ = kind
        changed.add(record)

    def set_attribute(record: Any, name: str, value: object) -> None:
        if name != "__class__":
            notice(record)
        object.__setattr__(record, name, value)

    def method(name: str) -> Callable[..., Any]:
        def call(record: Any, *args: Any, **kwargs: Any) -> Any:
            notice(record)
            return getattr(record, name)(*args, **kwargs)

        return call

    def content(name: str) -> property:
        def get(record: Any) -> Any:
            notice(record)
            return getattr(record, name)

        return property(get)

    members: dict[str, Any] = {"__slots__": (), "__setattr__": set_attribute}
    members |= {name: method(name) for name in methods} | {name: content(name) for name in contents}
    return cast("type[R]", type(kind.__name__, (kind,), members))


def _ignore(_: object) -> None:
    """Nothing hears of new values."""
