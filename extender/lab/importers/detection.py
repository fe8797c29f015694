"""Finds out which format a file has: by its first bytes, by the columns of its first line, or by its name."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from extender.lab.importers.registry import JSON_LIST, JSON_OBJECT, SQLITE, Format, Part
from extender.lab.tables import LONGEST_LINE, TraceError, open_file

_SQLITE = b"SQLite format 3\x00"
_ZIP, _TAR, _TAR_AT = b"PK\x03\x04", b"ustar", 257
#: What a file is that has to be unpacked first. In a folder it is passed over, as others are.
_ARCHIVE = "an archive"
_PEEK = 65_536
#: Files of one folder that are looked at.
_MOST_FILES = 1000


class Found(NamedTuple):
    """A file with its format and its part of that format."""

    path: Path
    format: Format
    part: Part


def recognise(path: Path, formats: Iterable[Format]) -> Found | None:
    """Return the format and part of a file; None if no format has it. Raises OSError and TraceError."""
    begin, columns = _look(path)
    for each in formats:
        for part in each.parts:
            if part.beginning:
                if part.beginning == begin:
                    return Found(path, each, part)
            elif set(part.columns) <= columns or (begin == "" and part.file and _stem(path) == part.file):
                return Found(path, each, part)
    return None


def nearest(path: Path, formats: Iterable[Format]) -> str:
    """Return which columns a file lacks of the most similar part, or how it would have to be called, for a message;
    empty if no part is similar."""
    begin, columns = _look(path)
    if begin == _ARCHIVE:
        return f"; it is {begin}: unpack it first"
    several = list(formats)
    parts = [(each, part) for each in several for part in each.parts if part.columns]
    best, part = max(parts, key=lambda pair: len(columns & set(pair[1].columns)), default=(None, None))
    if best is None or part is None or not columns & set(part.columns):
        return _names(several) if begin == "" else ""
    missing = ", ".join(name for name in part.columns if name not in columns)
    return f"; line 1: columns missing for {part.name} of {best.name}: {missing}"


def _names(formats: Sequence[Format]) -> str:
    """Return the names by which tables without a header are recognised, if it can be one of a single format."""
    names = [part.file for each in formats for part in each.parts if part.file]
    return (
        f"; without a header, its name is expected to be one of {', '.join(names)}"
        if len(formats) == 1 and names
        else ""
    )


def files(paths: Iterable[Path]) -> list[tuple[Path, bool]]:
    """Return the files, with those in folders, and whether the user named each one itself."""
    found: list[tuple[Path, bool]] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.is_file())
            if len(inside) > _MOST_FILES:
                raise TraceError(f"{path}: expected at most {_MOST_FILES} files")
            found += [(each, False) for each in inside]
        else:
            found.append((path, True))
    return found


def _look(path: Path) -> tuple[str, frozenset[str]]:
    """Return how a file begins, and the columns of its first line."""
    try:
        with open_file(path) as file:
            first = file.read(_PEEK)
            line = first.partition(b"\n")[0] if b"\n" in first else first + file.readline(LONGEST_LINE)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path}: expected a whole gzip file: {error}") from error
    if first.startswith(_SQLITE):
        return SQLITE, frozenset()
    if first.startswith(_ZIP) or first[_TAR_AT:].startswith(_TAR):
        return _ARCHIVE, frozenset()
    text = line.decode("utf-8-sig", "replace").strip()
    if text.startswith("["):
        return JSON_LIST, frozenset()
    if text.startswith("{"):
        return JSON_OBJECT, frozenset()
    try:
        return "", frozenset(cell.strip() for row in csv.reader([text[:_PEEK]]) for cell in row)
    except csv.Error:
        return "", frozenset()


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv")
