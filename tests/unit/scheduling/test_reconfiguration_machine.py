"""Another algorithm takes over again and again, in the middle of everything that can happen to a engine.

The naive world (`tests.support.engine.simulation`) holds what it always holds: no node over-committed, no bind lost or
answered twice, every promise to both algorithms kept, and at rest all of one mind; and the log replays.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from tests.support.engine.random_walk import happen
from tests.support.engine.simulation import POLICIES, EngineSimulation
from tests.unit.scheduling.preemption.test_direct_preemption_machine import DirectPreemption
from tests.unit.scheduling.test_scheduler_machine import SchedulerMachine

SOME = settings(max_examples=30, stateful_step_count=50, deadline=None, derandomize=True)


class _Operator:
    """Changes the configuration whenever Hypothesis likes."""

    world: EngineSimulation

    @rule()
    def reconfiguration_goes_on(self) -> None:
        self.world.reconfiguration_goes_on()

    @rule()
    def reconfiguration_ends(self) -> None:
        self.world.reconfiguration_ends()


class ReconfiguredScheduler(_Operator, SchedulerMachine):
    pass


class ReconfiguredPreemption(_Operator, DirectPreemption):
    pass


ReconfiguredScheduler.TestCase.settings = ReconfiguredPreemption.TestCase.settings = SOME
TestReconfiguredScheduler = ReconfiguredScheduler.TestCase
TestReconfiguredPreemption = ReconfiguredPreemption.TestCase


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("how", ["plain", "faults"])
def test_long_random_runs(policy: str, how: str) -> None:
    world, rng, taken = EngineSimulation(POLICIES[policy]), random.Random(f"{policy} {how}"), 0
    for number in range(1, 1500):
        if number % 700 == 0:
            world.crash()
        happen(world, rng, faults=how == "faults")
        if rng.random() < 0.1:
            world.reconfiguration_goes_on()
        if rng.random() < 0.1 and (ended := world.reconfiguration_ends()) is not None:
            taken += not ended.refused
    world.settle()
    assert taken > 50
