"""Finds paths of the configuration that hit nothing: what they should name would count as absent for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from extender.core.field_paths import MISSING, FieldPath
from extender.vpods.records import VPodSource

#: Versions of objects of a resource that are looked at.
_MOST: Final = 200


class PathCheck:
    """The paths of the sources of one resource. Only the informer's thread calls `look`."""

    def __init__(self, sources: Iterable[VPodSource]) -> None:
        self._looked = 0
        self._missed: dict[str, FieldPath] = {
            f"vpods.resources.{source.name}.{field}": path
            for source in sources
            if not source.has_conditions
            for field, path in _paths(source)
        }

    def look(self, body: bytes) -> None:
        """Look at a version of an object. The first ones are enough, and cost little."""
        if not self._missed or self._looked >= _MOST:
            return
        self._looked += 1
        found = msgspec.json.decode(body)
        self._missed = {field: path for field, path in self._missed.items() if path.find(found) is MISSING}

    def warning(self) -> str:
        """The first path that hits nothing, with its field; "" if there is none, or no object yet."""
        field, path = next(iter(self._missed.items()), ("", ""))
        return f"{field}: no object has {path}" if self._looked and field else ""


def _paths(source: VPodSource) -> Iterator[tuple[str, FieldPath]]:
    """The paths that are read, by the name of their setting. Placements are not among them: they are written here."""
    yield "wanted", source.wanted
    for path, _ in source.where:
        yield f"where.{path}", path
