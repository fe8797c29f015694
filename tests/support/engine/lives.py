"""Random lives of replicas in the simulation of tests.frozen, with a term, changed settings and prioritize in each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from extender.recording.encoding import LineWriter, decode_header, encode_instructions, header_of
from extender.recording.records import Header
from extender.scheduling.events import AlgorithmPrepared, Event, Instruction, PrioritizeRequested, TermBegan
from extender.scheduling.machine import SchedulerStateMachine
from tests.frozen.worlds import HivedRecorded, Recorded, Run
from tests.soak.replica import Replica
from tests.soak.runs import in_one_thread

WORLDS: dict[str, type[Recorded]] = {"packing": Recorded, "hived": HivedRecorded}
STEPS, LONGEST = 120, 600
#: What has to be in the lives together.
NEEDED = (AlgorithmPrepared, TermBegan, PrioritizeRequested)


class QuietLifeError(AssertionError):
    """In this world not all that is needed has happened."""


@dataclass
class Life:
    """What one replica has heard and said: as a log on disk has it, as events with their times, and as bytes."""

    log: bytes
    engine: SchedulerStateMachine
    writer: LineWriter
    heard: list[tuple[Event, float]] = field(default_factory=list)
    said: list[bytes] = field(default_factory=list)
    #: The answers themselves, as the engine gave them.
    answers: list[list[Instruction]] = field(default_factory=list)

    @property
    def header(self) -> Header:
        return decode_header(self.log.split(b"\n", 1)[0], "log")


def lives(algorithm: str, seed: int) -> list[Life]:
    """Let a cluster live until all that is needed has happened: every life of a replica, crashed ones included.

    A seed that is divisible by 3 has elections. Raises QuietLifeError for a seed with which they come to nothing.
    """
    found: dict[str, Life] = {}
    met: Counter[type] = Counter()

    class Living(WORLDS[algorithm]):  # type: ignore[misc]
        def _boot(self) -> Replica:
            replica: Replica = super()._boot()
            writer = LineWriter()
            head = writer.header(header_of(algorithm, self._first_settings, self.policy, recording=replica.name))
            found[replica.name] = Life(head, replica.machine, writer)
            return replica

        def _log(self, name: str, event: Event, out: list[Instruction]) -> None:
            super()._log(name, event, out)
            life = found[name]
            life.log += life.writer.event(life.engine.sequence, self.now, event, out)
            life.heard.append((event, self.now))
            life.said.append(encode_instructions(out))
            life.answers.append(out)
            met[type(event)] += 1

    with in_one_thread():
        world = Living(Run(algorithm, seed, STEPS, {"reservation_timeout": 20.0, "patience": 25.0}))
        while world.steps < STEPS or not all(met[kind] for kind in NEEDED):
            if world.steps >= LONGEST:
                raise QuietLifeError(f"seed {seed}: not all of {NEEDED} in {met}")
            world.step()
            if world.steps % 40 == 0:
                world._reconfigure(world.replicas[0])  # seldom by itself
    return list(found.values())
