"""A slice of `make soak`: some pairs of operation and fault by themselves, some mixtures, and exact repetition."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest

from extender.scheduling.commands import (
    Command,
    Evict,
    ReadPod,
    RecordEvent,
    RecordPreemption,
    RequeuePod,
    WriteBinding,
)
from tests.faults.table import OPERATIONS, simulated
from tests.soak.runs import run, run_pair
from tests.soak.wire import Name, every_pair

#: One fault of each operation.
SOME = [
    Random(op.name).choice([(p.operation.name, p.fault.name) for p in simulated() if p.operation is op])
    for op in OPERATIONS
    if op.by not in ("claims", "vpods", "ordering", "plans")
]


def steps_of(pair: Name) -> int:
    """How long a run has to be for the fault to strike: an event is counted once the same one was written before."""
    return 250 if pair[0] == "count event" else 100


@pytest.mark.parametrize("pair", SOME, ids=": ".join)
def test_every_operation_survives_a_fault_alone(pair: Name) -> None:
    assert run_pair(pair, 1, steps_of(pair))[-1].faults[pair]


@pytest.mark.slow
@pytest.mark.parametrize("pair", every_pair(), ids=": ".join)
def test_every_operation_survives_every_fault(pair: Name) -> None:
    assert run_pair(pair, 1, steps_of(pair))[-1].faults[pair]


def test_the_simulation_has_every_pair_of_the_table() -> None:
    assert {(pair.operation.name, pair.fault.name) for pair in simulated()} <= set(every_pair())


def test_the_simulated_committer_knows_every_command() -> None:
    assert Command == WriteBinding | ReadPod | Evict | RecordPreemption | RequeuePod | RecordEvent


@pytest.mark.parametrize("seed", [100, *(pytest.param(n, marks=pytest.mark.slow) for n in range(101, 106))])
def test_mixtures_of_faults_and_crashes_are_survived(seed: int) -> None:
    assert run(seed, 400, rate=0.15).bound > 0


@pytest.mark.slow
def test_one_seed_is_one_run() -> None:
    """Byte for byte, also in processes that order their sets otherwise."""
    here = run(9, 150).digest
    script = "from tests.soak.runs import run; print(run(9, 150).digest)"
    other = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=other, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here


def test_another_seed_is_another_run() -> None:
    assert run(7, 100).digest != run(8, 100).digest


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1006))
def test_long_mixtures_are_survived(seed: int) -> None:
    run(seed, 3000)
