"""A replay from a checkpoint says byte for byte what one from the first event says, wherever it was taken."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from algorithm.registry import create
from extender.recording.checkpoint import CheckpointHead, encode_checkpoint, read_checkpoint
from extender.recording.encoding import LineWriter, encode_instructions
from extender.recording.files import CompressedFile
from extender.recording.graph.comparing import PREPARATIONS, difference
from extender.recording.log import open_log
from extender.recording.records import FORMAT, RecordingError, Said, Step, policy_of
from extender.recording.replaying import Replay, start_before
from extender.scheduling.events import AlgorithmPrepared, Event, PrepareAlgorithm
from extender.scheduling.fork import fork
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.engine.lives import Life, lives
from tests.support.engine.logs import log_of
from tests.support.engine.random_walk import drive
from tests.support.engine.simulation import EngineSimulation

QUICK = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))


@cache
def a_life(algorithm: str, seed: int) -> Life:
    return max(lives(algorithm, 3 * seed), key=lambda life: len(life.heard))


def hear(engine: SchedulerStateMachine, event: Event, now: float) -> bytes:
    out = engine.handle(event, now)
    for item in out:
        if isinstance(item, PrepareAlgorithm):
            engine.preparations.carry_out(item, create)
    return encode_instructions(out)


def written(engine: SchedulerStateMachine, algorithm: str, path: Path) -> SchedulerStateMachine:
    """The engine after it was written and read; `path` is the checkpoint."""
    head = CheckpointHead(FORMAT, "r", engine.sequence, engine.driver.now, algorithm)
    file = CompressedFile(path, complete=True)
    for line in encode_checkpoint(fork(engine), head):
        file.write(line)
    file.finish()
    return read_checkpoint(path, algorithm)


def goes_on_alike(engine: SchedulerStateMachine, twin: SchedulerStateMachine, rest: list[tuple[Event, float]]) -> None:
    assert difference(engine, twin, apart=PREPARATIONS) == ""
    twin.validate()
    for event, now in rest:
        assert hear(engine, event, now) == hear(twin, event, now)
        assert engine.next_due() == twin.next_due()
    twin.validate()
    assert difference(engine, twin, apart=PREPARATIONS) == ""


@pytest.mark.parametrize("algorithm", ["packing", "hived"])
@QUICK
@given(seed=st.integers(0, 2), before=st.integers(0, 90))
def test_a_life_goes_on_from_a_checkpoint_anywhere(
    tmp_path_factory: pytest.TempPathFactory, algorithm: str, seed: int, before: int
) -> None:
    life = a_life(algorithm, seed)
    engine = SchedulerStateMachine(create(algorithm, life.header.settings), policy_of(life.header))
    rest = list(life.heard)
    while rest and (before > 0 or isinstance(rest[0][0], AlgorithmPrepared)):
        hear(engine, *rest.pop(0))
        before -= 1
    twin = written(engine, algorithm, tmp_path_factory.mktemp("c") / "checkpoint")
    goes_on_alike(engine, twin, rest)


@pytest.mark.parametrize("name", ["packing", "fgd"])
@pytest.mark.parametrize("seed", range(3))
def test_a_random_world_goes_on_from_many_checkpoints(name: str, seed: int, tmp_path: Path) -> None:
    """Each checkpoint is taken of an engine that itself came from one, so nothing wears off."""
    world = EngineSimulation(Policy(), make=lambda: create(name, {}))
    drive(world, random.Random(f"checkpoints {name} {seed}"), 690)
    engine = SchedulerStateMachine(create(name, {}), world.policy)
    for number, (event, now, out, _) in enumerate(world.log):
        if number % 47 == 13:
            engine = written(engine, name, tmp_path / f"{number}")
        assert hear(engine, event, now) == encode_instructions(out), f"event {number + 1}"
    assert len(list(tmp_path.iterdir())) >= 4


@pytest.mark.slow
def test_a_joined_file_of_checkpoint_and_segment_replays_in_processes_with_other_hash_seeds(tmp_path: Path) -> None:
    life = a_life("hived", 1)
    engine, half = SchedulerStateMachine(create("hived", life.header.settings), policy_of(life.header)), 0
    for event, now in life.heard[: len(life.heard) // 2]:
        hear(engine, event, now)
        half += 1
    if engine.preparations.has_any:
        hear(engine, *life.heard[half])
        half += 1
    written(engine, "hived", tmp_path / "checkpoint")
    writer, head = LineWriter(), msgspec.structs.replace(life.header, recording="r", first=half + 1)
    file = CompressedFile(tmp_path / "segment")
    file.write(writer.header(head))
    for number, (event, now) in enumerate(life.heard[half:], start=half + 1):
        file.write(writer.recorded(Step(now, event, number, Said(life.said[number - 1]))))
    file.finish()
    joined = tmp_path / "joined.gz"
    joined.write_bytes((tmp_path / "checkpoint").read_bytes() + (tmp_path / "segment").read_bytes())
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-m", "extender.cli", "replay", str(joined)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert f"{len(life.heard) - half:,} events" in ran.stdout
        assert "all the same" in ran.stdout


def test_a_start_is_found_by_time_and_number(tmp_path: Path) -> None:
    world = EngineSimulation(Policy(), make=lambda: create("packing", {}))
    drive(world, random.Random("starts"), 150)
    heard = [(event, at, out) for event, at, out, _ in world.log]
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "000001.waggle-log.gz").write_bytes(log_of("packing", world.policy, heard))
    engine = SchedulerStateMachine(create("packing", {}), world.policy)
    for number, (event, at, _) in enumerate(heard[:40], start=1):
        engine.handle(event, at)
        if number in (20, 40):
            written(engine, "packing", folder / f"0000{number:02}.waggle-checkpoint.gz")
    recording = open_log(folder).recordings[0]
    assert [each.number for each in recording.starts] == [0, 20, 40]
    assert start_before(recording, number=39).number == 20
    assert start_before(recording, at=heard[39][1]).number == 40
    replay = Replay(recording, start=start_before(recording, number=39))
    assert [played.step.number for played in replay] == list(range(21, len(heard) + 1))
    assert len(list(Replay(recording))) == len(heard)


# -- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path: Path) -> list[bytes]:
    head = CheckpointHead(FORMAT, "r", 0, 0.0, "packing", "0.9")
    return list(encode_checkpoint(SchedulerStateMachine(create("packing", {}), Policy()), head))


def read(lines: list[bytes], path: Path) -> SchedulerStateMachine:
    path.write_bytes(b"".join(lines))
    return read_checkpoint(path, "packing")


def test_a_checkpoint_that_is_cut_off_is_refused(checkpoint: list[bytes], tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="the checkpoint is not complete"):
        read(checkpoint[:-1], tmp_path / "c")
    with pytest.raises(RecordingError, match="the checkpoint is not complete: its last line is not complete"):
        read([*checkpoint[:-1], checkpoint[-1][:5]], tmp_path / "c")


def test_a_state_that_would_take_more_memory_than_is_allowed_is_refused(
    checkpoint: list[bytes], tmp_path: Path
) -> None:
    rows = b",".join([b'["list",' + b",".join([b"1"] * 1000) + b"]"] * 20)
    many = [*checkpoint[:-1], b'{"objects":[' + rows + b"]}\n", checkpoint[-1]]
    (tmp_path / "c").write_bytes(b"".join(many))
    with pytest.raises(RecordingError, match=r"c: the state .* would take more than 1 MiB; --memory-mib N allows more"):
        read_checkpoint(tmp_path / "c", "packing", 1)
    read_checkpoint(tmp_path / "c", "packing", 2)


REQUEUER = b'"extender.scheduling.requeue","Requeuer"'


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (b'"waggle_checkpoint":2', b'"waggle_checkpoint":3', "a checkpoint of format 3, this Waggle reads format 2"),
        (
            b'"extender.scheduling.requeue","Requeuer"',
            b'"extender.scheduling.requeue","Gone"',
            "written by release 0.9",
        ),
        (REQUEUER, b'"subprocess","Popen"', "is in none of the packages"),
        (REQUEUER, b'"extender.scheduling.requeue","PodInfo"', "no class and no function of its module"),
    ],
)
def test_a_checkpoint_of_another_program_says_what_differs(
    checkpoint: list[bytes], tmp_path: Path, was: bytes, now: bytes, said: str
) -> None:
    text = b"".join(checkpoint)
    assert was in text
    with pytest.raises(RecordingError, match=said):
        read([text.replace(was, now)], tmp_path / "c")


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    head = CheckpointHead(FORMAT, "r", 0, 0.0, "packing")
    root: Any = ["no engine"]
    with pytest.raises(RecordingError, match="no engine in it, but a list"):
        read(list(encode_checkpoint(root, head)), tmp_path / "c")
