"""Whatever one cell of a trace has in it: the trace is refused with the line, or is a workload that can be used."""

from __future__ import annotations

import csv
import re
import shutil
import sqlite3
from contextlib import closing, suppress
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.lab.checking import check_contents
from extender.lab.importers import load
from extender.lab.tables import FatalTraceError, TraceError
from extender.lab.workload_file import decode, encode
from tests.unit.lab.importers.test_formats import TRACES, azure

NUMBERS = (
    "",
    "-1",
    "-0.0",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e308",
    "9" * 400,
    "0x10",
    "1_0",
    "1.5",
    "99999999999",
    "1e10",
)
WORDS = (
    "x" * 201,
    "x" * 300,
    '"',
    "'",
    "\x00",
    "a\nb",
    "\r",
    "\u202e",
    "\u0663",
    "None",
    "|",
    "a|b",
    "../x",
    "0001-01-01 00:00:00",
)
CELLS = st.one_of(st.sampled_from([*NUMBERS, *WORDS]), st.integers(-(2**70), 2**70).map(str), st.text(max_size=5))
#: Values that SQLite keeps: of any type in any column.
VALUES = st.one_of(CELLS, st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.binary(max_size=3))
#: The tables of each format, as far as they have rows and are read.
READ = {
    "openb": ("pods.csv", "nodes.csv"),
    "pai": ("pai_task_table.csv", "pai_job_table.csv", "pai_instance_table.csv", "pai_machine_spec.csv"),
    "helios": ("cluster_log.csv", "cluster_gpu_number.csv"),
    "spot": ("job_info_df.csv", "node_info_df.csv"),
}
_FUZZ = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def refusal(folder: Path) -> str:
    """Read it, with and without broken lines; returns why it is refused as a whole, "" if it is not."""
    with suppress(FatalTraceError):
        check_contents(load(folder, skip_broken=True))
    try:
        found = load(folder)
    except TraceError as error:
        return str(error)
    check_contents(found)
    assert encode(decode(encode(found))) == encode(found)
    return ""


@pytest.mark.parametrize("name", ["openb", "pai", "helios", "spot"])
@_FUZZ
@given(data=st.data())
def test_any_cell_is_read_or_named_with_its_line(tmp_path: Path, name: str, data: st.DataObject) -> None:
    shutil.copytree(TRACES / name, tmp_path, dirs_exist_ok=True)
    path = data.draw(st.sampled_from(sorted(each for each in tmp_path.iterdir() if each.name in READ[name])))
    rows = list(csv.reader(StringIO(path.read_text(encoding="utf-8"))))
    at = data.draw(st.integers(0 if name == "pai" else 1, len(rows) - 1))  # its tables have no header
    rows[at][data.draw(st.integers(0, len(rows[at]) - 1))] = data.draw(CELLS)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    refused = refusal(tmp_path)
    assert (
        not refused
        or "appears twice" in refused
        or re.match(rf"{re.escape(str(tmp_path))}/\S+, line {at + 1}\b", refused)
    ), refused


@_FUZZ
@given(row=st.integers(0, 3), column=st.integers(0, 5), value=VALUES)
def test_any_value_of_azure_is_read_or_named_with_its_row(tmp_path: Path, row: int, column: int, value: object) -> None:
    (tmp_path / "trace.sqlite").unlink(missing_ok=True)
    requests: list[list[object]] = [[number, 1, number % 2, number % 2, number, number + 1.5] for number in range(4)]
    requests[row][column] = value
    azure(tmp_path / "trace.sqlite", map(tuple, requests), [(n, n, 1, 0.5, 0.25) for n in range(2)])
    refused = refusal(tmp_path)
    assert not refused or re.search(rf"table vm, (row|line) {row + 1}: |appears twice", refused), refused


@pytest.mark.parametrize("damage", [b"vm\xd3", b"v\xff"])
def test_a_damaged_name_in_a_database_is_said_with_its_file(tmp_path: Path, damage: bytes) -> None:
    path = azure(tmp_path / "trace.sqlite", [(1, 1, 1, 1, 0.0, 1.0)], [(1, 1, 1, 0.5, 0.5)])
    content = path.read_bytes()
    at = content.index(b"CREATE TABLE vm ") + len(b"CREATE TABLE ") - 2
    path.write_bytes(content[:at] + damage[: len(damage)] + content[at + len(damage) :])
    with pytest.raises(TraceError, match=f"{re.escape(str(path))}: expected an SQLite database"):
        load(path)
    with closing(sqlite3.connect(path)) as database, pytest.raises((sqlite3.Error, UnicodeDecodeError)):
        database.execute("SELECT * FROM vm")
