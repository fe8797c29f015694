"""Reads the traces of Alibaba's GPU cluster of 2023 ("openb"): nodes and pods as CSV files that the user gives.

Errors name the file, the line and the column. Nothing of the traces comes with Waggle.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import NamedTuple

#: Lines of one file.
MOST_LINES = 2_000_000
#: Digits of a number.
_LONGEST = 15


class TraceError(ValueError):
    """A trace cannot be read; the message names file, line and column."""


class NodeLine(NamedTuple):
    """A node: thousandths of a core, MiB, GPUs and their model."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class PodLine(NamedTuple):
    """A pod: thousandths of a core, MiB, GPUs and thousandths of each, the models that it can use, as written."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    spec: str

    @property
    def all_milli(self) -> int:
        """Thousandths of GPUs that it asks for."""
        return self.gpus * self.gpu_milli


def read_nodes(lines: Iterable[str], file: str) -> list[NodeLine]:
    """Read a list of nodes. Raises TraceError."""
    found = []
    for number, row in _rows(lines, file, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), "sn"):
        cpu, memory, gpus = (_amount(row, column, file, number) for column in ("cpu_milli", "memory_mib", "gpu"))
        found.append(NodeLine(row["sn"], cpu, memory, gpus, row["model"] if gpus else ""))
    return found


def read_pods(lines: Iterable[str], file: str) -> list[PodLine]:
    """Read a list of pods, of any phase. Raises TraceError."""
    found = []
    needed = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    for number, row in _rows(lines, file, needed, "name"):
        cpu, memory, gpus, milli = (_amount(row, column, file, number) for column in needed[1:])
        spec = "|".join(filter(None, (row.get("gpu_spec") or "").split("|")))
        milli = min(milli, 1000) if gpus else 0
        if gpus > 1 and milli < 1000:
            raise TraceError(f"{file}, line {number}: gpu_milli: expected 1000 for {gpus} GPUs, got {milli}")
        found.append(PodLine(row["name"], cpu, memory, gpus if milli else 0, milli, spec if milli else ""))
    return found


def _rows(lines: Iterable[str], file: str, needed: tuple[str, ...], key: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(lines)
    try:
        columns = reader.fieldnames or ()
        missing = [column for column in needed if column not in columns]
        if missing:
            raise TraceError(f"{file}, line 1: expected the columns {', '.join(needed)}; missing: {', '.join(missing)}")
        names: set[str] = set()
        for row in reader:
            number = reader.line_num
            if number > MOST_LINES:
                raise TraceError(f"{file}: more than {MOST_LINES} lines")
            if None in row or any(row[column] is None for column in columns):
                raise TraceError(f"{file}, line {number}: expected {len(columns)} columns")
            name = row[key]
            if not name or name in names:
                raise TraceError(f"{file}, line {number}: {key}: " + (f"{name} stands here twice" if name else "empty"))
            names.add(name)
            yield number, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise TraceError(f"{file}, line {reader.line_num + 1}: {error}") from error


def _amount(row: dict[str, str], column: str, file: str, number: int) -> int:
    text = row[column]
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        raise TraceError(f"{file}, line {number}: {column}: expected a whole number, 0 or more, got {text[:50]!r}")
    return int(text)
