"""What a simulation must be, whatever the workload: an oracle, conservation, and the same from every process."""

from __future__ import annotations

import os
import subprocess
import sys
from math import fsum
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from extender.lab.comparing import compare
from extender.lab.results import JobResult, JobState, Run, encode
from extender.lab.run.simulation import RunOptions, Simulation, simulate
from extender.lab.workload import GPU
from tests.support.lab.hived import hived_settings
from tests.support.lab.workloads import naive_starts, random_workload


def more(first: int, end: int) -> list[Any]:
    """Seeds that only the slow tests try."""
    return [pytest.param(seed, marks=pytest.mark.slow) for seed in range(first, end)]


@pytest.mark.parametrize("seed", [*range(6), *more(6, 12)])
def test_on_one_node_jobs_start_when_a_naive_simulator_says(seed: int) -> None:
    workload = random_workload(seed, machines=1)
    run = simulate(workload, RunOptions(algorithm="packing"))
    assert {job.name: job.start for job in run.jobs if job.start is not None} == naive_starts(workload)


def without_texts(run: Run) -> list[JobResult]:
    return [replace(job, code="", text="") for job in run.jobs]


@pytest.mark.parametrize("algorithm", ["packing", "fgd"])
@pytest.mark.parametrize("seed", [0, 1, *more(2, 4)])
def test_trying_every_waiting_pod_gives_the_same(algorithm: str, seed: int) -> None:
    workload = random_workload(seed, urgent=seed % 2 == 1, parts=algorithm == "fgd", failures=2)
    quick = simulate(workload, RunOptions(algorithm=algorithm))
    slow = simulate(workload, RunOptions(algorithm=algorithm, exhaustive=True))
    assert without_texts(quick) == without_texts(slow)
    assert quick.attempts < slow.attempts


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_hived_keeps_its_promises_and_trying_every_waiting_pod_gives_the_same(seed: int) -> None:
    workload = random_workload(seed, machines=4, gangs=False)
    random = Random(seed)
    jobs = tuple(replace(job, priority=random.choice((-1, 0)), gpu_models=()) for job in workload.jobs)
    workload = replace(workload, jobs=jobs)
    options = RunOptions(algorithm="hived", settings=hived_settings(["n0", "n1", "n2", "n3"], {"a": 2, "b": 2}))
    quick = simulate(workload, options)
    assert without_texts(quick) == without_texts(simulate(workload, replace(options, exhaustive=True)))
    assert all(job.state is JobState.DONE for job in quick.jobs)
    assert quick.measures.evictions > 0
    assert not any(job.evictions for job in quick.jobs if job.priority == 0)


@pytest.mark.parametrize("algorithm", ["packing", "fgd"])
@pytest.mark.parametrize("seed", range(3))
def test_gpu_time_is_done_lost_or_held(algorithm: str, seed: int) -> None:
    workload = random_workload(seed, urgent=True, parts=seed == 1, failures=3, gangs=algorithm == "packing")
    run = simulate(workload, RunOptions(algorithm=algorithm, stays=True))
    measures = run.measures
    jobs = {job.name: job for job in workload.jobs}
    assert all(job.state is JobState.DONE for job in run.jobs)
    done = fsum(job.gpu_milli * (job.seconds or 0.0) for job in workload.jobs)
    assert measures.done_gpu_milli_seconds == pytest.approx(done)
    assert measures.lost_gpu_milli_seconds == pytest.approx(fsum(job.lost_gpu_milli_seconds for job in run.jobs))
    parts = (measures.done_gpu_milli_seconds, measures.lost_gpu_milli_seconds, measures.held_gpu_milli_seconds)
    assert fsum(parts) == pytest.approx(measures.allocated_gpu_milli_seconds)
    taken = fsum(_taken(jobs[stay.job].requests[GPU], algorithm) * (stay.end - stay.start) for stay in run.stays)
    assert taken == pytest.approx(measures.allocated_gpu_milli_seconds)


def _taken(milli: int, algorithm: str) -> int:
    return milli if algorithm == "fgd" else -(-milli // 1000) * 1000


@pytest.mark.parametrize("seed", range(3))
def test_no_node_has_more_than_it_can_hold_at_any_time(seed: int) -> None:
    workload = random_workload(seed, urgent=True, failures=3)
    run = simulate(workload, RunOptions(algorithm="packing", stays=True))
    jobs = {job.name: job for job in workload.jobs}
    changes = [(stay.start, 1, stay) for stay in run.stays] + [(stay.end, -1, stay) for stay in run.stays]
    used: dict[str, int] = {}
    for _, sign, stay in sorted(changes, key=lambda change: change[:2]):
        used[stay.node] = used.get(stay.node, 0) + sign * jobs[stay.job].requests[GPU]
        assert 0 <= used[stay.node] <= 8000
    for failure in workload.failures:
        assert not any(
            stay.node == failure.node and stay.start < (failure.until or 0.0) and stay.end > failure.at
            for stay in run.stays
        )


def test_the_state_machine_is_consistent_after_each_moment() -> None:
    simulation = Simulation(random_workload(5, jobs=25, urgent=True, failures=3), RunOptions(algorithm="packing"))
    while simulation.advance():
        simulation.scheduling.machine.validate()
    assert not simulation.scheduling.machine.driver.faults


_SCRIPT = """
import sys
from extender.lab.comparing import compare
from extender.lab.results import encode
from extender.lab.run.simulation import RunOptions
from tests.support.lab.workloads import random_workload
runs = [RunOptions(algorithm=name, name=name, seed=3) for name in ("packing", "fgd")]
sys.stdout.buffer.write(encode(compare(random_workload(3, urgent=True, failures=2), runs)))
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    runs = [RunOptions(algorithm=name, name=name, seed=3) for name in ("packing", "fgd")]
    here = encode(compare(random_workload(3, urgent=True, failures=2), runs))
    environment = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    there = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, check=True)
    assert there.stdout == here
