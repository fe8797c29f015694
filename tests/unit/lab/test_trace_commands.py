"""`waggle trace`, as users call it."""

from __future__ import annotations

import gzip
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli import app
from extender.lab.generator import RECIPES
from extender.lab.importers import FORMATS, load
from extender.lab.importers import azure as azure_format
from extender.lab.workload import CPU, GPU, Job, MachineNode, Workload
from extender.lab.workload_file import encode
from extender.operate.trace_commands import FormatName, RecipeName
from tests.unit.lab.importers.test_formats import TRACES, azure


def trace(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["trace", *map(str, words)])


def test_the_command_knows_every_recipe_and_format() -> None:
    assert [each.value for each in RecipeName] == list(RECIPES)
    assert [each.value for each in FormatName] == list(FORMATS)


def test_a_workload_is_generated_shown_and_written(tmp_path: Path) -> None:
    out = tmp_path / "w.json"
    done = trace("generate", "philly", "--nodes", "5", "--days", "3", "--failures", "rsc-1", "--out", out)
    assert done.exit_code == 0, done.output
    assert "nodes: 5 with 40 GPUs (no model) and 480 cores" in done.stdout
    assert "tenants: 5, priorities: 0, 1" in done.stdout
    assert "- Published: Sizes and durations: the fit of Narayanan et al." in done.stdout
    again = trace("show", out)
    assert again.stdout == done.stdout
    assert load(out).name == "philly"


def test_a_workload_that_is_not_kept_is_told() -> None:
    done = trace("generate", "philly", "--nodes", "1", "--days", "1")
    assert done.exit_code == 0
    assert "the workload was not written: --out FILE writes it" in done.stderr


def test_a_compressed_file_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        assert trace("generate", "llm", "--nodes", "4", "--days", "1", "--out", tmp_path / name).exit_code == 0
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()).startswith(b'{"format":"waggle-workload"')


def test_a_trace_of_others_is_shown_and_converted(tmp_path: Path) -> None:
    out = tmp_path / "w.json"
    done = trace("show", TRACES / "philly", "--out", out)
    assert "philly: 2 jobs, 3 pods" in done.stdout
    assert "- Jobs without an attempt, left out: 1." in done.stdout
    assert load(out) == load(TRACES / "philly")
    printed = trace("show", TRACES / "philly", "--out", "-")
    assert printed.stdout_bytes == out.read_bytes()


def test_a_broken_line_is_named_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text((TRACES / "spot" / "job_info_df.csv").read_text() + "broken\n")
    refused = trace("show", path)
    assert refused.exit_code == 2
    assert "line 4: expected 9 columns, got 1" in refused.stderr
    assert "Broken lines, left out: 1: " in trace("show", path, "--skip-broken").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("generate", "philly", "--mtbf-days", "5", "--failures", "rsc-1"),
            "expected one of --mtbf-days and --failures",
        ),
        (
            ("generate", "philly", "--repair-hours", "3"),
            "--repair-hours: does nothing without --failures or --mtbf-days",
        ),
        (
            ("generate", "philly", "--days", "1", "--nodes", "1", "--out", "/none/x"),
            "--out: /none/x: expected a file in a folder that exists",
        ),
        (("show", "/none.csv"), "/none.csv: No such file or directory"),
        (
            ("show", TRACES / "philly", "--format", "helios"),
            "expected files of helios, got none",
        ),
    ],
)
def test_what_cannot_be_used_is_named(words: tuple[str, ...], said: str) -> None:
    done = trace(*words)
    assert done.exit_code == 2
    assert said in done.stderr.replace("\n", "")


def test_sigterm_leaves_no_unpacked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, temporary = tmp_path / "trace.sqlite.gz", tmp_path / "temporary"
    temporary.mkdir()
    path.write_bytes(gzip.compress(azure(tmp_path / "trace.sqlite", [(1, 1, 1, 0, 0.0, 1.0)], []).read_bytes()))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    unpack, unpacked = azure_format._copy, []

    def terminated(*files: Any) -> None:
        unpack(*files)
        unpacked.extend(temporary.glob("*/*"))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(azure_format, "_copy", terminated)
    assert trace("show", path).exit_code == 143
    assert len(unpacked) == 1
    assert list(temporary.iterdir()) == []


def test_a_name_begins_no_line_and_moves_no_cursor(tmp_path: Path) -> None:
    path, evil = tmp_path / "w.json", "a\nnodes: 9 with 9 GPUs\x1b[2J"
    machine = MachineNode("n\r0", {CPU: 1000, GPU: 1000}, gpu_model=evil)
    jobs = tuple(Job(f"{evil}{n}", 0.0, {GPU: 1000}, 1.0, tenant=f"{evil}{n}", gpu_models=("none",)) for n in range(2))
    path.write_bytes(encode(Workload(evil, jobs, (machine,), remarks=(f"left out: {evil}",))))
    simulated = CliRunner().invoke(app, ["simulate", "--trace", str(path), "--algorithm", "packing"])
    for done in (trace("show", path), simulated):
        assert done.exit_code == 0, done.output
        assert "\x1b" not in done.stdout
        assert r"a\nnodes: 9 with 9 GPUs\x1b[2J" in done.stdout
        assert not [line for line in done.stdout.splitlines() if line.startswith("nodes: 9")]
    twice = tmp_path / "job_info_df.csv"
    columns = "job_name,cpu_request,gpu_request,worker_num,submit_time,duration,job_type"
    twice.write_text(columns + '\n"a\nwaggle: b",1,1,1,0,1,HP' * 2)
    done = trace("show", twice)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert r"a\nwaggle: b appears twice" in done.stderr
