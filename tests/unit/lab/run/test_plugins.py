"""Algorithms of which the simulator knows nothing, and one that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.lab.results import JobState
from extender.lab.run.simulation import MOST_ERRORS, RunOptions, simulate
from tests.support.installed import install
from tests.support.lab.workloads import random_workload


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "tests.support.lab.plugins"
    install(tmp_path, monkeypatch, emptiest=f"{module}:EMPTIEST", raising=f"{module}:RAISING")


@pytest.mark.parametrize("seed", range(3))
def test_an_unknown_algorithm_is_simulated_as_if_every_pod_were_tried(seed: int) -> None:
    workload = random_workload(seed, gangs=False, failures=2)
    quick = simulate(workload, RunOptions(algorithm="emptiest"))
    slow = simulate(workload, RunOptions(algorithm="emptiest", exhaustive=True))
    assert all(job.state is JobState.DONE for job in quick.jobs)
    assert [replace(job, code="", text="") for job in quick.jobs] == [
        replace(job, code="", text="") for job in slow.jobs
    ]


def test_an_algorithm_that_raises_ends_the_run_and_is_named() -> None:
    run = simulate(random_workload(1, jobs=1200), RunOptions(algorithm="raising"))
    assert run.stopped.startswith(f"{MOST_ERRORS} attempts failed, one after the other: ")
    assert "cannot place" in run.stopped
    assert run.attempts == MOST_ERRORS
    assert run.measures.all.done == 0
