"""Reads the lines and tables of traces that a user gives, one after the other and within bounds.

Every error is a `TraceError` that names the file, the line, the column, and what was expected. A reader that may leave
out broken lines gives its errors to a `Problems`, which raises or counts them. Files may be compressed with gzip.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import BinaryIO, Self, cast

#: Lines of one file, and bytes of one line.
MOST_LINES = 20_000_000
LONGEST_LINE = 1 << 20
#: Broken lines that are named, if they are left out.
NAMED = 20
#: Characters of a name, and of a wrong value in a message.
_LONGEST_NAME, _SHOWN = 200, 50
#: What writers of tables write for "nothing".
NOTHING = frozenset({"", "nan", "NaN", "None", "null", "NULL", "\\N"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = len("2020-01-01 00:00:00")
_GZIP = b"\x1f\x8b"


class TraceError(ValueError):
    """A trace cannot be read; the message names file, line and column."""


class FatalTraceError(TraceError):
    """The rest of the trace cannot be read either."""


class Problems:
    """What is wrong with lines: `add` raises it, or with `skip` counts it and keeps the first few."""

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.count = 0
        self.named: list[str] = []

    def add(self, error: TraceError) -> None:
        """Raise the error, or count it."""
        if not self.skip or isinstance(error, FatalTraceError):
            raise error
        self.count += 1
        if len(self.named) < NAMED:
            self.named.append(str(error))

    @contextmanager
    def of_a_line(self) -> Iterator[None]:
        """Give errors that are raised inside to `add`."""
        try:
            yield
        except TraceError as error:
            self.add(error)

    def remarks(self) -> list[str]:
        """Return a sentence for what was left out."""
        if not self.count:
            return []
        which = f"; the first {NAMED}" if self.count > NAMED else ""
        return [f"Broken lines, left out: {self.count:,}{which}: {'; '.join(self.named)}."]


def open_file(path: Path) -> BinaryIO:
    """Open a file that may be compressed with gzip. Raises OSError."""
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(path, "rb")) if compressed else path.open("rb")


class Lines:
    """The lines of a file as text. `number` is that of the line that was read last.

    After an error the next line can be read, unless it is a FatalTraceError: too many lines, too long a line, half a
    file.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self.number = 0
        self._bytes = open_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bytes.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        self.number += 1
        try:
            line = self._bytes.readline(LONGEST_LINE)
        except (OSError, EOFError, zlib.error) as error:
            raise FatalTraceError(f"{self._here()}: expected a whole gzip file: {error}") from error
        if not line:
            raise StopIteration
        if len(line) == LONGEST_LINE:
            raise FatalTraceError(f"{self._here()}: expected a line of at most {LONGEST_LINE} bytes")
        if self.number > MOST_LINES:
            raise FatalTraceError(f"{self._here()}: expected at most {MOST_LINES} lines")
        try:
            return line.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise TraceError(f"{self._here()}: expected UTF-8, got the byte 0x{line[error.start]:02x}") from error

    def _here(self) -> str:
        return f"{self.file}, line {self.number}"


class _Counted:
    """Lines that come from elsewhere, counted."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.number = 0
        self._lines = iter(lines)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        return line


class Table:
    """A table of comma-separated values, as rows.

    `needed` are the columns without which it is refused; others are there to be asked for. `columns` are those of a
    file that may have no header. Spaces around values and names of columns do not count.
    """

    def __init__(
        self,
        lines: Iterable[str],
        file: str,
        needed: Sequence[str],
        *,
        columns: Sequence[str] | None = None,
        problems: Problems | None = None,
    ) -> None:
        self.file = file
        self._lines = lines if isinstance(lines, Lines) else _Counted(lines)
        self._reader = csv.reader(self._lines)
        self._problems = problems or Problems()
        #: The first row and its line, where it is no header.
        self._first: tuple[int, list[str]] | None = None
        line, header = self._begin(may_lack_header=columns is not None)
        if columns is not None and header and not set(columns) <= set(header):
            self._first, header = (line, header), list(columns)
        missing = [name for name in needed if name not in header]
        if missing:
            raise FatalTraceError(
                f"{file}, line 1: expected the columns {', '.join(needed)}; missing: {', '.join(missing)}"
            )
        if len(set(header)) < len(header):
            raise FatalTraceError(f"{file}, line 1: expected different columns, got {', '.join(header)[:200]}")
        self.places = {name: place for place, name in enumerate(header)}

    def _begin(self, *, may_lack_header: bool) -> tuple[int, list[str]]:
        """The first row, with its line. A broken one may be left out only if it may be no header."""
        while True:
            start = self._lines.number + 1
            try:
                return start, [name.strip() for name in self._next() or []]
            except TraceError as error:
                if not may_lack_header:
                    raise
                self._problems.add(error)

    def _next(self) -> list[str] | None:
        """The next row; None at the end."""
        start = self._lines.number + 1
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise TraceError(f"{self.file}, line {start}: {error}") from error
        except UnicodeDecodeError as error:
            raise TraceError(f"{self.file}, line {start}: expected UTF-8: {error}") from error

    def __iter__(self) -> Iterator[Row]:
        if self._first is not None:
            yield from self._row(*self._first)
        while True:
            start = self._lines.number + 1
            try:
                cells = self._next()
            except TraceError as error:
                self._problems.add(error)
                continue
            if cells is None:
                return
            if cells:
                yield from self._row(start, cells)

    def _row(self, number: int, cells: list[str]) -> Iterator[Row]:
        """The row, if it has as many columns as the header."""
        if len(cells) == len(self.places):
            yield Row(self, number, cells)
        else:
            text = f"{self.file}, line {number}: expected {len(self.places)} columns, got {len(cells)}"
            self._problems.add(TraceError(text))


class Row:
    """One row; its methods return the value of a column, or raise a TraceError that says what was expected."""

    __slots__ = ("_cells", "_table", "number")

    def __init__(self, table: Table, number: int, cells: list[str]) -> None:
        self._table, self.number, self._cells = table, number, cells

    def error(self, column: str, expected: str) -> TraceError:
        """Return an error about a column, to be raised."""
        got = repr(self.text(column)[:_SHOWN])
        return TraceError(f"{self._table.file}, line {self.number}: {column}: expected {expected}, got {got}")

    def text(self, column: str) -> str:
        """Return the text without spaces around it; empty if there is no such column."""
        place = self._table.places.get(column)
        return "" if place is None else self._cells[place].strip()

    def name(self, column: str) -> str:
        """Return a name: not empty, and not too long."""
        found = self.text(column)
        if not found:
            raise TraceError(f"{self._table.file}, line {self.number}: {column}: empty")
        if len(found) > _LONGEST_NAME:
            raise self.error(column, f"at most {_LONGEST_NAME} characters")
        return found

    def number_of(self, column: str, most: float) -> float:
        """Return a finite number from 0 to `most`."""
        found = self._number(column)
        if found is None or not 0 <= found <= most:
            raise self.error(column, f"a number from 0 to {most:g}")
        return found

    def number_or_none(self, column: str, most: float) -> float | None:
        """Return a finite number from 0 to `most`, None for an empty value."""
        return None if self.text(column) in NOTHING else self.number_of(column, most)

    def whole(self, column: str, most: int) -> int:
        """Return a whole number from 0 to `most`; 2.0 is one."""
        found = self._number(column)
        if found is None or not 0 <= found <= most or found != int(found):
            raise self.error(column, f"a whole number from 0 to {most}")
        return int(found)

    def _number(self, column: str) -> float | None:
        text = self.text(column)
        try:
            found = float(text) if text.isascii() and "_" not in text else None
        except ValueError:
            return None
        return found if found is not None and isfinite(found) else None

    def date(self, column: str) -> float:
        """Return a time as seconds since 1970. The time zone is taken to be UTC."""
        found = seconds(self.text(column))
        if found is None:
            raise self.error(column, "a time like 2020-06-09 18:41:01")
        return found


def seconds(text: str) -> float | None:
    """Return "2020-06-09 18:41:01" as seconds since 1970, as if in UTC; None if it is no such time."""
    if len(text) != _DATE:
        return None
    try:
        return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH).total_seconds()
    except ValueError:
        return None
