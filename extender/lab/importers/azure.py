"""Azure's trace for packing of 2020: requests for virtual machines, in an SQLite database (tables `vm` and `vmType`).

Format: https://github.com/Azure/AzurePublicDataset/blob/master/AzureTracesForPacking2020.md. What a type of virtual
machines needs is given as fractions of each machine that it can run on. The trace has no list of machines. One model of
machines is taken, the one on which most requests can run: a machine of it is 100 cores and 100 GiB here.
"""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from extender.lab.importers.registry import SQLITE, Format, Part
from extender.lab.tables import FatalTraceError, Problems, TraceError, open_file
from extender.lab.workload import CPU, MEMORY, Job, MachineNode, Workload
from extender.lab.workload_builder import Where, WorkloadBuilder
from extender.logs.printable import printable

_DAY = 86_400
#: A machine: one unit of each resource.
_CORES, _GIB = 100, 100
MACHINE = MachineNode("azure-machine", {CPU: _CORES * 1000, MEMORY: _GIB << 30})
#: Days that a time may be away from the beginning of the trace.
_MOST_DAYS = 36_500
_TABLES: Mapping[str, set[str]] = {
    "vm": {"vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime"},
    "vmType": {"vmTypeId", "machineId", "core", "memory"},
}
#: Types of virtual machines times machines.
_MOST_TYPES = 1_000_000
#: Bytes of an unpacked database, which is a temporary file; of a text in it.
_MOST_UNPACKED, _LONGEST_TEXT = 8 << 30, 1 << 20
#: SQLite does not tell capitals from small letters in names.
_OTHER_THAN_A_TABLE = (
    "SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE AND type <> 'index'"
    " AND (type <> 'table' OR sql NOT LIKE 'CREATE TABLE%')"
)


def _read(paths: Mapping[str, Path], problems: Problems) -> Workload:
    path = paths["database"]
    builder = WorkloadBuilder("azure", problems)
    try:
        with _database(path) as database:
            _check(database, path)
            machine = _machine(database)
            types = _types(database, path, machine, problems)
            # Rows come in the order of the file: sorting millions of them is for the builder, not for a temporary file.
            rows = database.execute("SELECT rowid, vmId, tenantId, vmTypeId, priority, starttime, endtime FROM vm")
            for row in rows:
                with problems.of_a_line():
                    _request(row, path, types, builder)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of SQLite's message about a damaged name
        raise FatalTraceError(f"{path}: expected an SQLite database with the tables vm and vmType: {error}") from error
    builder.remark(
        f"Machines are those of model {machine}, on which most requests can run; one is {_CORES} cores and {_GIB} GiB "
        "here (--nodes NUMBER --node-shape cpu=100,memory=100Gi). Disks and network are left out."
    )
    builder.remark(
        "High priority (0) is priority 1 here, low priority (1) is 0; if it was evicted, its time is cut short."
    )
    return builder.workload()


class _Shares(NamedTuple):
    """What a type of virtual machines needs, as fractions of a machine."""

    core: float
    memory: float


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database for reading only. A compressed one is unpacked to a temporary file, which is deleted."""
    with tempfile.TemporaryDirectory(prefix="waggle-azure-") as folder:
        plain = path
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
        if compressed:
            plain = Path(folder) / "trace.sqlite"
            try:
                with open_file(path) as packed, plain.open("wb") as unpacked:
                    _copy(packed, unpacked, path)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise FatalTraceError(f"{path}: expected a whole gzip file: {error}") from error
        with closing(sqlite3.connect(f"{plain.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
            yield database


def _copy(packed: BinaryIO, unpacked: BinaryIO, path: Path) -> None:
    written = 0
    while block := packed.read(1 << 20):
        written += len(block)
        if written > _MOST_UNPACKED:
            raise FatalTraceError(f"{path}: expected at most {_MOST_UNPACKED >> 20:,} MiB when it is unpacked")
        unpacked.write(block)


def _check(database: sqlite3.Connection, path: Path) -> None:
    for table, needed in _TABLES.items():
        # The name is one of ours.
        columns = {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}
        missing = sorted(needed - columns)
        if missing:
            wanted = ", ".join(sorted(needed))
            raise FatalTraceError(
                f"{path}, table {table}: expected the columns {wanted}; missing: {', '.join(missing)}"
            )
        if database.execute(_OTHER_THAN_A_TABLE, (table,)).fetchone():
            raise FatalTraceError(f"{path}: expected {table} to be a table, not a view")


def _machine(database: sqlite3.Connection) -> Any:
    """Return the model of machines on which most requests can run."""
    found = database.execute(
        "SELECT vmType.machineId, SUM(requested.number) AS most FROM vmType JOIN"
        " (SELECT vmTypeId, COUNT(*) AS number FROM vm GROUP BY vmTypeId) AS requested"
        " ON requested.vmTypeId = vmType.vmTypeId"
        " GROUP BY vmType.machineId ORDER BY most DESC, vmType.machineId LIMIT 1"
    ).fetchone()
    return found[0] if found else 0


def _types(database: sqlite3.Connection, path: Path, machine: Any, problems: Problems) -> dict[Any, _Shares]:
    """Return the needs of each type on this model of machines."""
    found: dict[Any, _Shares] = {}
    rows = database.execute("SELECT rowid, vmTypeId, core, memory FROM vmType WHERE machineId = ?", (machine,))
    for line, kind, core, memory in rows:
        with problems.of_a_line():
            if kind in found:
                raise TraceError(
                    f"{path}, table vmType, row {line}: vmTypeId: {printable(str(kind))} appears twice for a machine"
                )
            for name, value in (("core", core), ("memory", memory)):
                if not isinstance(value, int | float) or not 0 <= value <= 1:
                    where = f"{path}, table vmType, row {line}"
                    raise TraceError(f"{where}: {name}: expected a number from 0 to 1, got {value!r:.50}")
            if len(found) > _MOST_TYPES:
                raise FatalTraceError(f"{path}, table vmType: expected at most {_MOST_TYPES:,} types")
            found[kind] = _Shares(float(core), float(memory))
    return found


def _request(row: tuple[Any, ...], path: Path, types: Mapping[Any, _Shares], builder: WorkloadBuilder) -> None:
    line, vm, tenant, kind, priority, begin, end = row
    start, stop = _days(path, line, "starttime", begin), None if end is None else _days(path, line, "endtime", end)
    if start is None or (stop is not None and stop < start):
        what = ("starttime", "a number", begin) if start is None else ("endtime", f"a time not before {start:g}", end)
        raise TraceError(f"{path}, table vm, row {line}: {what[0]}: expected {what[1]}, got {what[2]!r}")
    if priority not in (0, 1):
        raise TraceError(f"{path}, table vm, row {line}: priority: expected 0 or 1, got {priority!r:.50}")
    if kind not in types:
        builder.count("Requests for types that cannot run on this model of machines, left out")
        return
    if start < 0:
        builder.count(
            "Virtual machines that ran before the trace; they arrive when it begins, for the rest of their time"
        )
        if stop is not None and stop <= 0:
            return
        start = 0.0
    core, memory = types[kind]
    job = Job(
        name=f"{vm}",
        arrival=start * _DAY,
        requests=builder.requests(cores=core * _CORES, gib=memory * _GIB),
        seconds=None if stop is None else (stop - start) * _DAY,
        priority=1 - priority,
        tenant=builder.shared(f"{tenant}"),
    )
    builder.job(job, Where(f"{path}, table vm", line, "vmId"))


def _days(path: Path, line: int, column: str, value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not isfinite(value) or abs(value) > _MOST_DAYS:
        where = f"{path}, table vm, row {line}"
        raise TraceError(f"{where}: {column}: expected days, up to {_MOST_DAYS:,}, got {value!r:.50}")
    return float(value)


FORMAT = Format(
    name="azure",
    title="Microsoft Azure, AzureTracesForPacking2020",
    url="https://github.com/Azure/AzurePublicDataset/blob/master/AzureTracesForPacking2020.md",
    parts=(Part("database", beginning=SQLITE),),
    read=_read,
)
