"""Broken traces: each mistake is named with file, line, column and what was expected."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from extender.lab.importers import azure as azure_format
from extender.lab.importers import load
from extender.lab.tables import LONGEST_LINE, NAMED, TraceError
from tests.unit.lab.importers.test_formats import TRACES, azure

SPOT = (TRACES / "spot" / "job_info_df.csv").read_text().splitlines()
HELIOS = (TRACES / "helios" / "cluster_log.csv").read_text().splitlines()
TASKS = (TRACES / "pai" / "pai_task_table.csv").read_text().splitlines()
PODS = (TRACES / "openb" / "pods.csv").read_text().splitlines()
FIRST = {
    "status": "Pass",
    "vc": "v",
    "jobid": "a",
    "submitted_time": "2017-10-07 01:11:39",
    "attempts": [{"start_time": None, "end_time": None, "detail": [{"ip": "m", "gpus": ["gpu0"]}]}],
}


#: Of Waggle's own format.
NODE: dict[str, object] = {"name": "n", "capacity": {"cpu": 1000}}
JOB: dict[str, object] = {"name": "a", "arrival": 0, "requests": {"cpu": 1}}


def refusal(path: Path, format_name: str | None = None) -> str:
    with pytest.raises(TraceError) as error:
        load(path, format_name)
    return str(error.value)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([SPOT[0], SPOT[1].replace("2764", "-1")], "line 2: duration: expected a number from 0 to 1e+10, got '-1'"),
        ([SPOT[0], SPOT[1].replace("2764", "inf")], "line 2: duration: expected a number from 0 to 1e+10, got 'inf'"),
        ([SPOT[0], SPOT[1].replace("2764", "1e400")], "line 2: duration: expected a number"),
        ([SPOT[0], SPOT[1].replace("2764", "nan")], "line 2: duration: expected a number"),
        ([SPOT[0], SPOT[1].replace("2764", "1_0")], "line 2: duration: expected a number"),
        ([SPOT[0], SPOT[1].replace("2764", "")], "line 2: duration: expected a number from 0 to 1e+10, got ''"),
        ([SPOT[0], SPOT[1], SPOT[1]], "line 3: job_name: 7 appears twice"),
        ([SPOT[0], SPOT[1].replace("HP", "VIP")], "line 2: job_type: expected HP or Spot, got 'VIP'"),
        (
            [SPOT[0], SPOT[2].replace("1.0,16", "1.5,16")],
            "line 2: gpu_request: expected a whole number, or less",
        ),
        ([SPOT[0], SPOT[2].replace("1.0,16", "1e9,16")], "line 2: gpu_request: expected a number from 0 to 1024"),
        ([SPOT[0], SPOT[2].replace(",16,", ",16.5,")], "line 2: worker_num: expected a whole number from 0 to 100000"),
        ([SPOT[0], SPOT[2].replace(",16,", ",0,")], "line 2: worker_num: expected 1 or more, got '0'"),
        ([SPOT[0], SPOT[1], "8,1"], "line 3: expected 9 columns, got 2"),
        ([SPOT[0], SPOT[1].replace("7,", ",", 1)], "line 2: job_name: empty"),
        ([SPOT[0], "n" * 300 + SPOT[1]], "line 2: job_name: expected at most 200 characters"),
        ([SPOT[0], '"' + "x" * 200_000], "line 2: field larger than field limit"),
        (
            [HELIOS[0], HELIOS[1].replace("2020-06-09 18:41:01", "2020-06-31 18:41:01")],
            "line 2: submit_time: expected",
        ),
        ([HELIOS[0], HELIOS[1].replace("COMPLETED", "HAPPY")], "line 2: state: expected one of CANCELLED, COMPLETED"),
        ([HELIOS[0], HELIOS[1].replace(",600,", ",-600,")], "line 2: duration: expected a number from 0"),
        ([PODS[0], PODS[1].replace(",500,20", ",10,20")], "line 2: deletion_time: expected a time not before"),
        ([PODS[0], PODS[1].replace(",0,500", ",-5,500")], "line 2: creation_time: expected a number from 0"),
        ([PODS[0], PODS[1].replace("16384", "99999999999")], "line 2: memory_mib: expected at most 8589934592 MiB"),
    ],
)
def test_a_mistake_in_a_table_is_named(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    assert f"{path}, {said}" in refusal(path)


def test_a_broken_first_line_of_a_table_without_a_header_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "pai_task_table.csv"
    path.write_text(f"{TASKS[0]}\rx\n{TASKS[1]}\n{TASKS[1]}\n")
    found = load(path, skip_broken=True)
    assert len(found.jobs) == 1
    assert any(f"{path}, line 1: new-line character" in remark and "line 3: " in remark for remark in found.remarks)


def test_a_job_and_a_task_whose_names_are_too_long_together_are_named(tmp_path: Path) -> None:
    path = tmp_path / "pai_task_table.csv"
    path.write_text(f"{TASKS[0]}\n{'j' * 190},{'t' * 190},{TASKS[0].split(',', 2)[2]}\n")
    assert f"{path}, line 2: task_name: expected a name of 1 to 240 characters, got 381" in refusal(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (TASKS[0].replace("1900.0", "900.0"), "end_time: expected a time not before start_time (1010)"),
        (TASKS[0].replace("1010.0", "-1010.0"), "start_time: expected a number from 0"),
        (TASKS[0].replace("ps,1.0", "ps,0.0"), "inst_num: expected 1 or more"),
        (TASKS[0].replace("600.0", "1e300"), "plan_cpu: expected a number from 0"),
        (TASKS[1], "task_name: job-a/worker appears twice"),
    ],
)
def test_a_mistake_in_a_table_without_header_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "pai_task_table.csv"
    path.write_text(f"{TASKS[1]}\n{line}\n")
    assert f"{path}, line 2: {said}" in refusal(path)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(SPOT[0].replace("duration", "length") + "\n")
    said = "expected a file of spot; line 1: columns missing for jobs of spot: duration"
    assert f"{path}: {said}" == refusal(path, "spot")
    assert said.partition("; ")[2] in refusal(path)


def test_a_table_without_a_header_needs_a_name(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text(f"{TASKS[1]}\n")
    said = (
        "expected a file of pai; without a header, its name is expected to be one of pai_instance_table, pai_task_table"
    )
    assert said in refusal(path, "pai")
    assert refusal(path).endswith(" or waggle")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"jobs": [JOB, JOB]}, "job 'a': name: there are two of this name"),
        ({"jobs": [JOB | {"arrival": -1}]}, "job 'a': arrival: expected seconds, 0 or more, got -1.0"),
        ({"nodes": [NODE, NODE]}, "node 'n': name: there are two of this name"),
        ({"failures": [{"node": "m", "at": 1}]}, "failure 1: node: there is no node 'm'"),
    ],
)
def test_a_workload_with_a_mistake_is_refused_when_it_is_read(
    tmp_path: Path, wrong: dict[str, object], said: str
) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"format": "waggle-workload", "nodes": [NODE], "jobs": [JOB]} | wrong))
    assert refusal(path) == f"{path}: {said}"


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"{SPOT[0]},duration\n{SPOT[1]},5\n")
    assert "line 1: expected different columns" in refusal(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "Lost"}, "line 2, object 2: status: expected one of Pass, Killed, Failed, got 'Lost'"),
        ({"submitted_time": 5}, "line 2, object 2: submitted_time: expected a time like"),
        ({"submitted_time": "yesterday"}, "line 2, object 2: submitted_time: expected a time like"),
        ({"jobid": 5}, "line 2, object 2: jobid: expected a text of 1 to 200 characters, got 5"),
        ({"attempts": None}, "line 2, object 2: attempts: expected a list, got None"),
        ({"attempts": [5]}, "line 2, object 2: attempts[0].detail: expected a list of machines with their gpus"),
        (
            {"attempts": [*FIRST["attempts"], {"start_time": 5}]},
            "line 2, object 2: attempts[1].start_time: expected a time like",
        ),
        ({"jobid": "a"}, "line 2: jobid: a appears twice"),
    ],
)
def test_a_mistake_in_an_entry_is_named(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(f"[{json.dumps(FIRST)},\n{json.dumps(FIRST | {'jobid': 'b'} | change)}]")
    assert f"{path}, {said}" in refusal(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[{json.dumps(FIRST)},\n{{'x'", "line 2, object 2: expected an object in JSON"),
        (f"[{json.dumps(FIRST)}\n\n5]", "line 3, object 1: expected a comma or the end of the list, got '5'"),
        (f"[{json.dumps(FIRST)},\n", "line 2, object 2: expected an object in JSON"),
        (f"[{json.dumps(FIRST)},\n[]]", "line 2, object 2: expected an object, got []"),
        (
            f"[{json.dumps(FIRST)}, {json.dumps(FIRST | {'jobid': 'b'})}, 5]",
            "line 1, object 3: expected an object, got 5",
        ),
        (" [\n ]", "line 2: expected a list with objects, got an empty one"),
        ("[" * 100_000, "line 1, object 1: expected an object that is not nested so deeply"),
        ('[{"a": ' + "9" * 10_000 + "}]", "line 1, object 1: expected an object in JSON"),
    ],
)
def test_a_list_that_is_no_json_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(text)
    assert f"{path}, {said}" in refusal(path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps([{"status": "Pass"}]))
    assert f"{path}, line 1, object 1: submitted_time: missing" in refusal(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((0, 1, 1, 0, 2.0, 1.0), "table vm, row 2: endtime: expected a time not before 2, got 1.0"),
        ((0, 1, 1, 0, None, 1.0), "table vm, row 2: starttime: expected a number, got None"),
        ((0, 1, 1, 0, "x", 1.0), "table vm, row 2: starttime: expected days"),
        ((0, 1, 1, 0, 1e300, 1.0), "table vm, row 2: starttime: expected days"),
        ((0, 1, 1, 7, 0.0, 1.0), "table vm, row 2: priority: expected 0 or 1, got 7"),
        ((9, 1, 1, 0, 0.0, 1.0), "table vm, line 2"),
    ],
)
def test_a_mistake_in_a_database_is_named(tmp_path: Path, row: tuple[object, ...], said: str) -> None:
    path = azure(tmp_path / "x.sqlite", [(9, 1, 1, 0, 0.0, 1.0), row], [(0, 1, 1, 0.5, 0.5)])
    assert f"{path}, {said}" in refusal(path)


def test_a_fraction_that_is_none_is_named(tmp_path: Path) -> None:
    path = azure(tmp_path / "x.sqlite", [(9, 1, 1, 0, 0.0, 1.0)], [(0, 1, 1, 1.5, 0.5)])
    assert f"{path}, table vmType, row 1: core: expected a number from 0 to 1, got 1.5" in refusal(path)


def test_a_database_that_unpacks_to_more_than_there_may_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_format, "_MOST_UNPACKED", 3 << 20)
    path = tmp_path / "bomb.sqlite.gz"
    whole = azure(tmp_path / "x.sqlite", [(9, 1, 1, 0, 0.0, 1.0)], [(0, 1, 1, 0.5, 0.5)]).read_bytes()
    path.write_bytes(gzip.compress(whole + bytes(4 << 20)))
    assert "expected at most 3 MiB when it is unpacked" in refusal(path)


@pytest.mark.parametrize("view", ["vm", "VM"])
def test_a_database_without_the_tables_or_with_a_view_is_refused(tmp_path: Path, view: str) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE vm (vmId)")
    assert "table vm: expected the columns" in refusal(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE vm")
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT "
        columns = ", ".join(
            f"x AS {name}" for name in ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime")
        )
        database.execute(f"CREATE VIEW {view} AS {endless}{columns} FROM n")
    assert "expected vm to be a table, not a view" in refusal(path)


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = azure(tmp_path / "x.sqlite", [(9, 1, 1, 0, 0.0, 1.0)], [(0, 1, 1, 0.5, 0.5)])
    path.write_bytes(path.read_bytes()[:150])
    assert f"{path}: expected an SQLite database" in refusal(path)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_named_with_its_line(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "pai_task_table.csv"
    path.write_bytes(f"{TASKS[1]}\n{TASKS[0].replace('ps', 'pß')}\n".encode(encoding))
    line = 1 if encoding == "utf-16" else 2
    assert f"{path}, line {line}: expected UTF-8, got the byte 0x" in refusal(path)


def test_half_a_gzip_file_is_refused_even_if_broken_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    lines = [SPOT[0], *(SPOT[1].replace("7,", f"{n},", 1) for n in range(20_000))]
    packed = gzip.compress("\n".join(lines).encode(), compresslevel=1)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(TraceError, match=r"jobs.csv.gz, line \d+: expected a whole gzip file"):
        load(path, skip_broken=True)


def test_a_line_without_an_end_is_refused_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    # Compressed a thousand times: what is read must not be what it unpacks to.
    path.write_bytes(gzip.compress(f"{SPOT[0]}\n".encode() + b"x" * (64 * LONGEST_LINE)))
    tracemalloc.start()
    try:
        assert f"line 2: expected a line of at most {LONGEST_LINE} bytes" in refusal(path)
        assert tracemalloc.get_traced_memory()[1] < 16 * LONGEST_LINE
    finally:
        tracemalloc.stop()


def test_broken_lines_are_left_out_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    lines = [SPOT[0], *(SPOT[1].replace("7,", f"{n},", 1) for n in range(100))]
    for number in range(10, 10 + NAMED + 5):
        lines[number] = "broken"
    path.write_text("\n".join(lines))
    found = load(path, skip_broken=True)
    assert len(found.jobs) == 75
    (remark,) = (each for each in found.remarks if "Broken lines" in each)
    assert remark.startswith(f"Broken lines, left out: 25; the first {NAMED}: {path}, line 11: expected 9 columns")
    assert f"line {10 + NAMED}: " in remark
    assert f"line {11 + NAMED}: " not in remark


def test_one_broken_line_of_many_is_named_by_its_number_and_read_in_bounded_memory(tmp_path: Path) -> None:
    """Some lines here, a million by hand: the memory for a line that is not kept does not grow."""
    path = tmp_path / "pai_instance_table.csv"
    row = "job-a,worker,i0,w0,inst-a,Terminated,1020.0,1820.0,m0\n"
    path.write_text(row * 19_999 + row.replace("1820.0", "oops"))
    (tmp_path / "pai_task_table.csv").write_text(TASKS[1])
    tracemalloc.start()
    try:
        assert f"{path}, line 20000: end_time: expected a number from 0 to 1e+10, got 'oops'" in refusal(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
