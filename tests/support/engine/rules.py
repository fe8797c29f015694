"""What Hypothesis may let happen in any simulation of the engine: writes and their answers, events, time, crashes."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.engine.random_walk import NETWORK
from tests.support.engine.simulation import EngineSimulation

Simulation = TypeVar("Simulation", bound=EngineSimulation)


class SimulationRules(RuleBasedStateMachine, Generic[Simulation]):
    """A machine of a test adds an `initialize` that makes `world`, and rules of its own.

    `faults` are the ends of a request that are tried; `none` has to be among them.
    """

    faults: ClassVar[tuple[str, ...]] = NETWORK
    world: Simulation

    @rule(which=st.integers(0, 5), fault=st.runner().flatmap(lambda machine: st.sampled_from(machine.faults)))
    def work_is_done(self, which: int, fault: str) -> None:
        self.world.work_is_done(which, fault)

    @rule(which=st.integers(0, 3))
    def late_report(self, which: int) -> None:
        self.world.late_report(which)

    @rule()
    def event_arrives(self) -> None:
        self.world.event_arrives()

    @rule(seconds=st.sampled_from([0.5, 3.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.time_passes(seconds)

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        if hasattr(self, "world"):
            self.world.check_room()
