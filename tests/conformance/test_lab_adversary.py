"""Random workloads through the command, against a model of one machine that was written from the docs alone."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from extender.cli import app
from tests.conformance.lab_adversary.one_machine import drawn, expected


def simulated(folder: Path, workload: dict[str, Any], algorithm: str) -> dict[str, Any]:
    trace, results = folder / "trace.json", folder / "results.json"
    trace.write_text(json.dumps(workload))
    command = ["simulate", "--trace", str(trace), "--algorithm", algorithm, "--json", str(results)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    run: dict[str, Any] = json.loads(results.read_text())["runs"][0]
    return run


def check(folder: Path, seed: int) -> None:
    workload = drawn(Random(seed))
    run = simulated(folder, workload, ("packing", "fgd")[seed % 2])
    model = expected(workload)
    found = {job["name"]: (job["start"], job["end"]) for job in run["jobs"]}
    assert found == {name: pytest.approx(times) for name, times in model.items()}, f"seed {seed}"

    delays = [model[job["name"]][0] - job["arrival"] for job in workload["jobs"]]
    measures = run["measures"]
    assert measures["all"]["delay"]["mean"] == pytest.approx(sum(delays) / len(delays)), f"seed {seed}"
    used = sum(job["pods"] * job["requests"]["gpu"] * job["seconds"] for job in workload["jobs"])
    assert measures["done_gpu_milli_seconds"] == pytest.approx(used), f"seed {seed}"
    parts = sum(measures[f"{name}_gpu_milli_seconds"] for name in ("done", "lost", "held"))
    assert measures["allocated_gpu_milli_seconds"] == pytest.approx(parts), f"seed {seed}"


def test_one_machine_runs_its_jobs_when_the_model_does(tmp_path: Path) -> None:
    for seed in range(8):
        check(tmp_path, seed)


@pytest.mark.slow
def test_one_machine_runs_its_jobs_when_the_model_does_at_length(tmp_path: Path) -> None:
    for seed in range(100, 180):
        check(tmp_path, seed)
