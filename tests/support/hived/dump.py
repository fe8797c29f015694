"""A dump of every attribute of every object of a hive: state that somebody adds is compared, too."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import Any

from algorithm.hived.cells.journal import Journal
from algorithm.hived.cells.nodelist import NodeList
from algorithm.hived.state.cluster import HivedCluster

#: What a trial leaves behind on purpose (see `journal.py`), and what only caches something.
LEFT_BEHIND = {"version", "written"}
_SCALARS = {type(None), str, int, bool, float, bytes}


def dump(hive: HivedCluster, *, lists: bool = False) -> list[Any]:
    """All that can be reached, each object once, by number; with `lists`, also how machines are sorted."""
    numbers: dict[int, int] = {}
    found: list[Any] = [hive]
    skipped = (Journal,) if lists else (Journal, NodeList)

    def seen(thing: Any) -> Any:
        if type(thing) in _SCALARS or isinstance(thing, (str, int, float, bytes)):
            return thing
        if isinstance(thing, skipped) or callable(thing):
            return type(thing).__name__
        if _is_value(thing):
            return sorted(thing) if isinstance(thing, frozenset) else tuple(map(seen, thing))
        if id(thing) not in numbers:
            numbers[id(thing)] = len(found)
            found.append(thing)
        return numbers[id(thing)]

    shown = []
    for thing in found:
        # What is iterated grows meanwhile.
        shown.append((type(thing).__name__, [tuple(map(seen, each)) for each in _parts(thing)]))
    return shown


def _is_value(thing: Any) -> bool:
    """Whether it is equal to others, and not an object by itself."""
    if isinstance(thing, (tuple, frozenset)):
        return all(map(_is_value, thing))
    return type(thing) in _SCALARS or isinstance(thing, (str, int, float, bytes))


def _parts(thing: Any) -> list[tuple[Any, ...]]:
    if isinstance(thing, dict):
        # Counts, and the positions in a list: their order decides nothing.
        entries = list(thing.items())
        if all(isinstance(key, (int, tuple)) for key in thing):
            return sorted(entries, key=lambda entry: _comparable(entry[0]))
        counted = all(isinstance(value, int) for value in thing.values())
        return sorted(entries, key=itemgetter(1)) if counted else entries
    if isinstance(thing, (set, frozenset)):
        return [(each,) for each in sorted(thing)]
    if isinstance(thing, (list, tuple)):
        return [(each,) for each in thing]
    names = [*_slots(type(thing)), *getattr(thing, "__dict__", ())]
    return [(name, _value(name, getattr(thing, name))) for name in names if name not in LEFT_BEHIND]


@cache
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(name for each in kind.__mro__ for name in getattr(each, "__slots__", ()))


def _comparable(key: Any) -> Any:
    if isinstance(key, (tuple, frozenset)):
        return tuple(map(_comparable, sorted(key) if isinstance(key, frozenset) else key))
    return key


def _value(name: str, value: Any) -> Any:
    """What never changes in place, but is a mapping: as a value."""
    return tuple(sorted(value.items())) if name == "used" and isinstance(value, dict) else value
