"""The whole engine in a simulation (`tests/support/engine`): random requests, faults, late and missed events."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import create
from extender.recording.encoding import encode_instructions
from extender.scheduling.commands import RequeuePod
from tests.support.engine.logs import log_of, replayed
from tests.support.engine.random_walk import CHANGES, drive
from tests.support.engine.rules import SimulationRules
from tests.support.engine.simulation import CALLS, GHOSTS, NAMES, NODES, POLICIES, EngineSimulation

names, nodes = st.sampled_from(NAMES), st.sampled_from(NODES)
offers = st.lists(nodes, unique=True)
KINDS = ("ours", "theirs", "gated", "polite")


class SchedulerMachine(SimulationRules[EngineSimulation]):
    """Hypothesis chooses what happens, so that a failure comes as the shortest story of it."""

    @initialize(policy=st.sampled_from(list(POLICIES)))
    def begin(self, policy: str) -> None:
        self.world = EngineSimulation(POLICIES[policy])

    @rule(name=names, cpu=st.sampled_from([1000, 3000]), priority=st.sampled_from([0, 10]), kind=st.sampled_from(KINDS))
    def pod_created(self, name: str, cpu: int, priority: int, kind: str) -> None:
        self.world.pod_created(name, cpu, priority, kind)

    @rule(name=names)
    def pod_deleted(self, name: str) -> None:
        self.world.pod_deleted(name)

    @rule(name=names, how=st.sampled_from(CHANGES))
    def pod_changed(self, name: str, how: str) -> None:
        self.world.pod_changed(name, how)

    @rule(name=names, where=nodes)
    def somebody_else_binds(self, name: str, where: str) -> None:
        self.world.somebody_else_binds(name, where)

    @rule(which=st.integers(0, 30))
    def event_arrives_again(self, which: int) -> None:
        self.world.event_arrives_again(which)

    @rule()
    def events_are_missed(self) -> None:
        self.world.events_are_missed()

    @rule()
    def relist(self) -> None:
        self.world.relist()

    @rule(name=names, offer=offers, stale=st.booleans(), trial=st.booleans(), bind=st.booleans())
    def filtered(self, name: str, offer: list[str], stale: bool, trial: bool, bind: bool) -> None:
        self.world.filtered(name, offer, stale=stale, trial=trial, bind=bind)

    @rule(name=st.sampled_from(GHOSTS), serial=st.integers(0, 9), offer=offers)
    def ghost_filtered(self, name: str, serial: int, offer: list[str]) -> None:
        self.world.ghost_filtered(name, serial, offer)

    @rule(name=names, where=nodes)
    def bound_out_of_the_blue(self, name: str, where: str) -> None:
        self.world.bound_out_of_the_blue(name, where)

    @rule(name=names, offer=offers)
    def preempt_asked(self, name: str, offer: list[str]) -> None:
        self.world.preempt_asked(name, offer)

    @rule(name=nodes)
    def node_flaps(self, name: str) -> None:
        self.world.node_flaps(name)

    @rule(call=st.sampled_from(CALLS))
    def algorithm_will_fail(self, call: str) -> None:
        self.world.algorithm_will_fail(call)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()


SchedulerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None, derandomize=True)
TestScheduler = SchedulerMachine.TestCase


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("how", ["plain", "faults", "resizing"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_long_random_runs(policy: str, how: str, seed: int) -> None:
    world = EngineSimulation(POLICIES[policy])
    rng = random.Random(f"{policy} {how} {seed}")
    drive(world, rng, 1500, faults=how == "faults", resizing=how == "resizing")


def packing() -> SchedulerAlgorithm:
    return create("packing", {})


@pytest.mark.parametrize("policy", ["tired", "evicting", "others"])
def test_the_same_world_with_packing(policy: str) -> None:
    for seed in range(3):
        world = EngineSimulation(POLICIES[policy], make=packing)
        drive(world, random.Random(f"packing {policy} {seed}"), 1000)
        assert world.machine.driver.faults == 0, world.machine.driver.last_fault


@pytest.mark.parametrize("policy", ["tired", "evicting"])
def test_a_log_of_a_random_run_with_packing_replays_byte_for_byte(policy: str) -> None:
    """Straight, and by way of the JSON log: what comes out is what the server had said."""
    world = EngineSimulation(POLICIES[policy], make=packing)
    drive(world, random.Random(f"replay {policy}"), 690)
    said = [encode_instructions(out) for _, _, out, _ in world.log]
    log = log_of("packing", world.policy, [(event, at, out) for event, at, out, _ in world.log])
    assert replayed(log)[1] == said
    kinds = {type(item).__name__ for _, _, out, _ in world.log for item in out}
    assert kinds >= {"FilterAnswer", "BindAnswer", "WriteBinding", "ReadPod"}


def test_a_nudge_is_for_a_pod_that_waits() -> None:
    """Nudges in the random runs above are only sent to waiting pods; here one is seen."""
    world = EngineSimulation()
    for name in ("a", "b", "c", "d"):
        world.pod_created(name, 3000, 0, "ours")
    world.deliver_all()
    for name in ("a", "b", "c", "d"):
        world.filtered(name, list(NODES), stale=False, trial=False, bind=False)
    world.time_passes(11.0)
    while world.work:
        world.work_is_done(0, "none")
    assert [x.name for _, _, out, _ in world.log for x in out if isinstance(x, RequeuePod)] == ["d"]
