"""Traces of each format as workloads, from files in their documented shape."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from extender.lab.importers import FORMATS, load
from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode, Workload
from extender.lab.workload_file import encode

TRACES = Path(__file__).parents[3] / "fixtures" / "traces"
GIB = 1 << 30


def azure(path: Path, requests: Iterable[tuple[object, ...]], types: Iterable[tuple[object, ...]]) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
        database.execute("CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
        database.executemany("INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", requests)
        database.executemany("INSERT INTO vmType VALUES (?, ?, ?, ?, ?, 0, 0, 0)", types)
        database.commit()
    return path


def by_name(workload: Workload) -> dict[str, Job]:
    return {job.name: job for job in workload.jobs}


def test_openb() -> None:
    found = load(TRACES / "openb")
    assert found.nodes == (
        MachineNode("node-0", {CPU: 64000, MEMORY: 256 * GIB, GPU: 2000}, "P100"),
        MachineNode("node-1", {CPU: 32000, MEMORY: 256 * GIB}),
    )
    assert found.jobs == (
        Job("pod-0", 0, {CPU: 12000, MEMORY: 16 * GIB, GPU: 1000}, 480),
        Job("pod-3", 10, {CPU: 8000, MEMORY: GIB, GPU: 2000}, 45),
        Job("pod-1", 30, {CPU: 6000, MEMORY: 12 * GIB, GPU: 460}, 60, gpu_models=("P100", "V100M16")),
    )
    assert any(remark.endswith("no run time, left out: 1.") for remark in found.remarks)


def test_openb_without_times(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,0,0,0\nb,2000,0,8,1000\n")
    found = load(tmp_path)
    assert [(job.arrival, job.seconds) for job in found.jobs] == [(0, None), (1, None)]
    assert "no times" in found.remarks[0]


def test_pai_without_headers() -> None:
    found = load(TRACES / "pai")
    assert found.name == "pai"
    assert found.nodes == (
        MachineNode("m0", {CPU: 96000, MEMORY: 512 * GIB, GPU: 2000}, "T4"),
        MachineNode("m1", {CPU: 96000, MEMORY: 512 * GIB}),
    )
    jobs = by_name(found)
    assert set(jobs) == {"job-a/ps", "job-a/worker", "job-b/tensorflow"}
    worker = jobs["job-a/worker"]
    assert worker == Job(
        "job-a/worker", 0, {CPU: 4000, MEMORY: 10 * GIB, GPU: 500}, 870, pods=2, gang=True, tenant="user-1"
    )
    assert jobs["job-a/ps"].requests == {CPU: 6000, MEMORY: round(29.296875 * GIB)}
    assert jobs["job-a/ps"].seconds == 890, "the start of its only instance is not known"
    assert jobs["job-b/tensorflow"].gpu_models == ("V100",)
    assert jobs["job-b/tensorflow"].arrival == 100
    assert any("a number of instances, left out: 1." in remark for remark in found.remarks)


def test_pai_with_headers_and_without_the_optional_tables(tmp_path: Path) -> None:
    header = ",".join(FORMATS["pai"].part("tasks").columns)
    rows = (TRACES / "pai" / "pai_task_table.csv").read_text()
    path = tmp_path / "anything.csv"
    path.write_text(f"{header}\n{rows}")
    found = load(path)
    assert [job.name for job in found.jobs] == ["job-a/ps", "job-a/worker", "job-b/tensorflow"]
    assert found.jobs[1].seconds == 880
    assert found.jobs[1].tenant == ""
    assert any(remark.startswith("Without pai_job_table") for remark in found.remarks)


def test_philly() -> None:
    found = load(TRACES / "philly")
    assert [node.capacity[GPU] for node in found.nodes] == [8000, 8000, 2000]
    assert found.nodes[0].gpu_model == "24GB"
    assert found.jobs == (
        Job("application_3", 0, {GPU: 1000}, 600, tenant="vc-2"),
        Job("application_1", 20, {GPU: 8000}, 180, pods=2, gang=True, tenant="vc-1"),
    )
    assert any("they run until then: 1." in remark for remark in found.remarks)
    assert any(remark == "Jobs without an attempt, left out: 1." for remark in found.remarks)


def test_helios() -> None:
    found = load(TRACES / "helios")
    assert [(node.name, node.capacity[GPU], node.labels) for node in found.nodes] == [
        ("vcA-0", 8000, {"vc": "vcA"}),
        ("vcA-1", 4000, {"vc": "vcA"}),
        ("vcB-0", 8000, {"vc": "vcB"}),
        ("vcB-1", 8000, {"vc": "vcB"}),
    ]
    assert found.jobs == (
        Job("12", 0, {CPU: 16000, GPU: 8000}, 249, pods=2, gang=True, tenant="vcB"),
        Job("11", 30, {CPU: 4000, GPU: 1000}, 600, tenant="vcA"),
        Job("13", 57, {CPU: 8000}, 2, tenant="vcB"),
    )


def test_spot() -> None:
    found = load([TRACES / "spot" / "job_info_df.csv", TRACES / "spot" / "node_info_df.csv"])
    assert found.nodes[1] == MachineNode("1", {CPU: 128000, GPU: 8000}, "A100-SXM4-80GB")
    assert found.jobs == (
        Job("7", 0, {CPU: 20000, GPU: 1000}, 2764, priority=1, tenant="13", gpu_models=("A10",)),
        Job(
            "8",
            90,
            {CPU: 15000, GPU: 1000},
            41060,
            pods=16,
            gang=True,
            tenant="57",
            gpu_models=("A100-SXM4-80GB",),
        ),
    )


@pytest.mark.parametrize("packed", [False, True])
def test_azure(tmp_path: Path, packed: bool) -> None:
    requests = [
        (0, 5, 1, 0, -2.5, None),
        (1, 5, 1, 1, 0.5, 1.5),
        (2, 6, 2, 0, 1.0, 1.25),
        (3, 6, 1, 0, -2.0, -1.0),
        (4, 6, 9, 0, 0.0, 1.0),
    ]
    types = [(0, 1, 16, 0.5, 0.25), (1, 2, 16, 0.125, 1), (2, 1, 17, 0.3, 0.3), (3, 9, 17, 0.1, 0.1)]
    path = azure(tmp_path / "trace.sqlite", requests, types)
    if packed:
        (tmp_path / "packed.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "packed.gz"
    found = load(path)
    assert found.jobs == (
        Job("0", 0, {CPU: 50000, MEMORY: 25 * GIB}, None, priority=1, tenant="5"),
        Job("1", 43200, {CPU: 50000, MEMORY: 25 * GIB}, 86400, priority=0, tenant="5"),
        Job("2", 86400, {CPU: 12500, MEMORY: 100 * GIB}, 21600, priority=1, tenant="6"),
    )
    assert any("model 16" in remark for remark in found.remarks)
    assert any("this model of machines, left out: 1." in remark for remark in found.remarks)
    assert any("rest of their time: 2." in remark for remark in found.remarks)


@pytest.mark.parametrize("packed", [False, True])
def test_our_own_format(tmp_path: Path, packed: bool) -> None:
    made = Workload("mine", (Job("a", 1.5, {GPU: 500}, tenant="t"),), (MachineNode("n", {GPU: 1000}),))
    path = tmp_path / "workload.json"
    path.write_bytes(gzip.compress(encode(made)) if packed else encode(made))
    assert load(path) == made


@pytest.mark.parametrize("name", ["openb", "pai", "philly", "helios", "spot"])
def test_compressed_files_are_read_alike(tmp_path: Path, name: str) -> None:
    for path in (TRACES / name).iterdir():
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert load(tmp_path) == load(TRACES / name)
    assert load(tmp_path, name) == load(TRACES / name)


@pytest.mark.parametrize("name", ["openb", "pai", "philly", "helios", "spot"])
def test_line_ends_of_windows_and_a_byte_order_mark_do_not_matter(tmp_path: Path, name: str) -> None:
    for path in (TRACES / name).iterdir():
        (tmp_path / path.name).write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load(tmp_path) == load(TRACES / name)


def test_files_of_two_formats_are_refused(tmp_path: Path) -> None:
    shutil.copy(TRACES / "openb" / "pods.csv", tmp_path)
    shutil.copy(TRACES / "spot" / "job_info_df.csv", tmp_path)
    with pytest.raises(ValueError, match="expected files of one format, got files of spot and openb"):
        load(tmp_path)


def test_a_missing_file_of_a_format_is_named() -> None:
    with pytest.raises(ValueError, match=r"expected also a file of Alibaba, .* with jobs \(columns job_name, "):
        load(TRACES / "spot" / "node_info_df.csv")


def test_two_files_with_the_same_part_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copy(TRACES / "openb" / "pods.csv", tmp_path / name)
    with pytest.raises(ValueError, match=r"b: expected one file with pods, got .*a, too"):
        load(tmp_path)


def test_an_unknown_file_and_an_unknown_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"x.csv: expected a file of openb or pai or philly"):
        load(path)
    with pytest.raises(ValueError, match="expected one of the formats openb, .* got borg"):
        load(path, "borg")
    with pytest.raises(ValueError, match="expected files of openb or pai .* or waggle, got none"):
        load(tmp_path)


OPENB = os.environ.get("WAGGLE_OPENB", "")


@pytest.mark.skipif(not OPENB, reason="WAGGLE_OPENB names no folder with the trace")
@pytest.mark.parametrize(("name", "jobs"), [("default", 7255), ("gpushare40", 7171), ("multigpu20", 8324)])
def test_the_published_trace(name: str, jobs: int) -> None:
    folder = Path(OPENB)
    found = load([folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{name}.csv"])
    assert len(found.jobs) == jobs
    assert sum(node.capacity[GPU] for node in found.nodes) == 6_212_000


def test_an_archive_is_to_be_unpacked_first_and_passed_over_in_a_folder(tmp_path: Path) -> None:
    """Two of the traces are published as archives."""
    shutil.copytree(TRACES / "pai", tmp_path / "pai")
    archive = shutil.make_archive(str(tmp_path / "pai" / "pai_task_table"), "gztar", TRACES / "pai")
    zipped = shutil.make_archive(str(tmp_path / "pai" / "all"), "zip", TRACES / "pai")
    for path in (archive, zipped):
        with pytest.raises(ValueError, match="it is an archive: unpack it first"):
            load(Path(path))
    assert load(tmp_path / "pai") == load(TRACES / "pai")
