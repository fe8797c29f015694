"""The description of a format: its files, how each is recognised, and the function that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from extender.lab.tables import Lines, Problems, Table
from extender.lab.workload import Workload

#: Beginnings of files that are no tables.
SQLITE, JSON_LIST, JSON_OBJECT = "SQLite", "a list in JSON", "an object in JSON"


class Part(NamedTuple):
    """One file of a format.

    It is recognised by its `columns`, or, if it is no table, by its `beginning`. A table without a header is
    recognised by its name, `file`, and then all of its columns are `columns`.
    """

    name: str
    columns: tuple[str, ...] = ()
    beginning: str = ""
    file: str = ""
    needed: bool = True


@dataclass(frozen=True)
class Format:
    """A format of traces. `read` is given a path for each part that there is."""

    name: str
    title: str
    #: Its documentation.
    url: str
    parts: tuple[Part, ...]
    read: Callable[[Mapping[str, Path], Problems], Workload]

    def part(self, name: str) -> Part:
        """Return a part by its name."""
        return next(part for part in self.parts if part.name == name)

    def table(self, lines: Lines, part: str, problems: Problems, *, needed: tuple[str, ...] = ()) -> Table:
        """Return one of the parts as a table with a header, or without one if the first line is none."""
        wanted = self.part(part)
        return Table(lines, lines.file, needed or wanted.columns, problems=problems)
