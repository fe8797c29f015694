"""A recorded life is replayed without holes: a random simulation, by way of bytes, into a fresh engine.

The simulation is that of tests.frozen: every fault, elections, crashes, changed settings, prioritize. Each replica
records what it heard. A fresh engine with the recorded settings and policy must say the same, and every pod must have
the same history, whose numbers are those of the recorded events.
"""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from algorithm.registry import create
from extender.scheduling.events import AlgorithmPrepared, Event, Instruction, PrioritizeRequested, TermBegan
from extender.scheduling.machine import SchedulerStateMachine
from extender.server import recording
from extender.server.recording import Step, encode_instructions, encode_step
from tests.frozen.worlds import HivedRecorded, Recorded, Run
from tests.soak.replica import Replica
from tests.soak.runs import in_one_thread

STEPS, LONGEST = 120, 600
#: What has to be in every life that is replayed.
NEEDED = (AlgorithmPrepared, TermBegan, PrioritizeRequested)


class _Life:
    """What one replica has heard and said: the log as it is on disk, and its instructions as bytes."""

    def __init__(self, algorithm: str, world: Recorded) -> None:
        self.log = recording.encode_header(algorithm, world._first_settings, world.policy)
        self.said: list[bytes] = []
        self.times: list[float] = []


def lives(world_type: type[Recorded], seed: int) -> tuple[list[tuple[_Life, Replica]], Counter[type]]:
    """Let a cluster live until all that is needed has happened; every life of a replica, crashed ones included."""
    met: Counter[type] = Counter()

    class Living(world_type):  # type: ignore[misc, valid-type]
        lives: dict[str, _Life]
        beings: dict[str, Replica]

        def __init__(self, run: Run) -> None:
            self.beings = {}
            self.lives = defaultdict(lambda: _Life(run.algorithm, self))
            super().__init__(run)

        def _boot(self) -> Replica:
            replica: Replica = super()._boot()
            self.beings[replica.name] = replica
            return replica

        def _log(self, name: str, event: Event, out: list[Instruction]) -> None:
            super()._log(name, event, out)
            life = self.lives[name]
            life.log += encode_step(Step(self.now, event, self.beings[name].machine.sequence)) + b"\n"
            life.said.append(encode_instructions(out))
            life.times.append(self.now)
            met[type(event)] += 1

    with in_one_thread():
        world = Living(Run(world_type.algorithm, seed, STEPS, {"reservation_timeout": 20.0, "patience": 25.0}))
        while world.steps < STEPS or not all(met[kind] for kind in NEEDED):
            assert world.steps < LONGEST, f"seed {seed}: not all of {NEEDED} in {met}"
            world.step()
            if world.steps % 40 == 0:
                world._reconfigure(world.replicas[0])  # seldom by itself
    return [(life, world.beings[name]) for name, life in world.lives.items()], met


def replayed(life: _Life) -> tuple[SchedulerStateMachine, list[bytes]]:
    header, steps = recording.read(io.BytesIO(life.log))
    engine = SchedulerStateMachine(create(header.algorithm, header.settings), recording.policy_of(header))
    return engine, [encode_instructions(out) for _, out in recording.replay_on(engine, steps)]


def histories(engine: SchedulerStateMachine) -> dict[str, Any]:
    return {entry.uid: (entry.state, entry.node, tuple(entry.history)) for entry in engine.entries()}


@pytest.mark.parametrize("world_type", [Recorded, HivedRecorded], ids=["packing", "hived"])
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.integers(0, 100_000))
def test_a_recorded_life_replays_byte_for_byte(world_type: type[Recorded], draw: int) -> None:
    found, _ = lives(world_type, seed=3 * draw)  # these seeds have elections
    for life, replica in found:
        engine, said = replayed(life)
        assert said == life.said
        assert histories(engine) == histories(replica.machine)
        for entry in engine.entries():
            assert all(life.times[line.event - 1] == line.at for line in entry.history), "a number of another event"


def test_a_missing_event_is_noticed() -> None:
    life = lives(Recorded, seed=6)[0][0][0]
    lines = life.log.splitlines(keepends=True)
    life.log = b"".join([*lines[:5], *lines[6:]])
    with pytest.raises(recording.RecordingError, match="log:6: expected event 5, not 6"):
        replayed(life)
