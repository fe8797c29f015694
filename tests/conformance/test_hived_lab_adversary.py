"""Random clusters of `hived` and random workloads through `waggle simulate`, against what the docs alone say.

Every job that is promised enough is done, none waits for what its tenant is promised and nobody uses, no device has
two users, no tenant has more than its promise. And a run is the same alone, next to another one, and once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from algorithm.hived import HivedAlgorithm
from algorithm.interface import Phase, Preempt, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Pod
from extender.cli import app
from tests.conformance.lab_adversary.hived_laws import owed
from tests.conformance.lab_adversary.hived_worlds import Cluster, cluster_of, workload_of
from tests.conformance.lab_adversary.laws import broken

Data = dict[str, Any]


def written(folder: Path, name: str, content: Data) -> Path:
    (folder / name).write_text(json.dumps(content))
    return folder / name


def drawn(seed: int) -> tuple[Cluster, Data]:
    random = Random(seed)
    cluster = cluster_of(random)
    return cluster, workload_of(random, cluster)


def simulated(folder: Path, workload: Data, *runs: tuple[str, Data], seed: int = 0) -> list[Data]:
    """Return the results of `hived` with these settings, by the name of the run."""
    options = ["--trace", str(written(folder, "trace.json", workload)), "--seed", str(seed)]
    for name, settings in runs:
        file = written(folder, f"{name}.yaml", settings)
        options += ["--algorithm", f"{name}=hived", "--settings", f"{name}={file}"]
    found = folder / "results.json"
    done = CliRunner().invoke(app, ["simulate", *options, "--json", str(found)])
    assert done.exit_code == 0, (done.output, done.exception)
    results: list[Data] = json.loads(found.read_text())["runs"]
    return results


def check_laws(folder: Path, seed: int) -> None:
    cluster, workload = drawn(seed)
    (run,) = simulated(folder, workload, ("cells", cluster.settings()))
    assert [*broken(workload, run), *owed(cluster, workload, run)] == [], f"seed {seed}"


def check_company(folder: Path, seed: int) -> None:
    """Other switches in the run beside it; another seed may decide ties otherwise."""
    cluster, workload = drawn(seed)
    settings = cluster.settings()
    others = {**settings, "promoteLazilyPreempted": not settings.get("promoteLazilyPreempted", False)}
    for tie in (0, 1):
        together = simulated(folder, workload, ("one", settings), ("two", others), seed=tie)
        alone = [
            *simulated(folder, workload, ("one", settings), seed=tie),
            *simulated(folder, workload, ("two", others), seed=tie),
        ]
        assert together == alone, f"seed {seed}, ties {tie}"


def test_hived_owes_nothing_to_a_job(tmp_path: Path) -> None:
    for seed in (7, 11):
        check_laws(tmp_path, seed)


@pytest.mark.slow
def test_hived_owes_nothing_to_a_job_at_length(tmp_path: Path) -> None:
    for seed in range(100, 116):
        check_laws(tmp_path, seed)


@pytest.mark.slow
def test_a_run_of_hived_is_the_same_alone(tmp_path: Path) -> None:
    check_company(tmp_path, 2)


@pytest.mark.slow
def test_a_run_of_hived_is_the_same_alone_at_length(tmp_path: Path) -> None:
    for seed in range(200, 202):
        check_company(tmp_path, seed)


def _never_starts(job: Data) -> Data:
    return {key: value for key, value in job.items() if key not in ("first_start", "start", "end", "state")}


def _runs_with_all_others(job: Data) -> Data:
    return job | {"end": 10_000.0 + job["seconds"]} if "end" in job else job


def _starts_late(job: Data) -> Data:
    late = {key: job[key] + 10_000.0 for key in ("first_start", "start", "end") if key in job}
    return job | late


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_never_starts, "can run, and is waiting in the end"),
        (_runs_with_all_others, "devices run on machines with"),
        (_runs_with_all_others, "are promised"),
        (_starts_late, "and all that is promised is free"),
        (_starts_late, "places is free"),
    ],
)
def test_a_run_that_owes_something_is_named(tmp_path: Path, spoil: Callable[[Data], Data], said: str) -> None:
    cluster, workload = drawn(10)
    (run,) = simulated(tmp_path, workload, ("cells", cluster.settings()))
    spoilt = run | {"jobs": [spoil(job) for job in run["jobs"]]}
    assert any(said in sentence for sentence in owed(cluster, workload, spoilt))


def test_a_hived_that_evicts_nobody_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = HivedAlgorithm.schedule

    def hesitant(self: HivedAlgorithm, pod: Pod, offered: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = schedule(self, pod, offered, phase)
        return Wait(found.reason) if isinstance(found, Preempt) else found

    monkeypatch.setattr(HivedAlgorithm, "schedule", hesitant)
    cluster, workload = drawn(107)
    (run,) = simulated(tmp_path, workload, ("cells", cluster.settings()))
    assert any("all that is promised is free" in sentence for sentence in owed(cluster, workload, run))
