"""A log of events, written and read back, replays to byte-identical instructions."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from algorithm.hived.formats.plainyaml import load
from algorithm.packing.gangs import MOST_MEMBERS
from algorithm.reasons import Code, reason
from extender.core.outcomes import OutcomeKind
from extender.scheduling.commands import PodRead, WriteBinding
from extender.scheduling.events import DependenciesChanged, DependenciesForgotten, PodGone, Synced
from extender.scheduling.policy import Limits, Policy
from extender.scheduling.state.preemption_record import LONGEST_RECORD
from extender.server import recording
from tests.support.engine.harness import EngineHarness, only
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm


class RecordedHeart(EngineHarness):
    def __init__(self, record: recording.Recorder) -> None:
        self.record, self.outs = record, []
        super().__init__()

    def handle(self, event):
        self.record(event, self.now, self.machine.sequence + 1)
        out = super().handle(event)
        self.outs.append(recording.encode_instructions(out))
        return out


def a_busy_day(engine: EngineHarness) -> None:
    engine.see(node("a"), node("b"), pod("low", cpu=4000, on="b"))
    p, q = pod("p", annotations=(("é", "ü"),)), pod("q", cpu=3000, priority=7)
    engine.filter(p, "a", "b")
    write = only(engine.bind(p, "a"), WriteBinding)
    read = engine.finish(write.token, OutcomeKind.UNKNOWN)[0]
    engine.read(read.token, pod("p", on="a"))
    engine.filter(q, "b")
    engine.preempt(q, "b")
    engine.handle(PodGone("default", "low", "uid-low"))
    engine.filter(q, "b")
    engine.tick(61)
    engine.handle(PodRead(99, heart_outcome(), None))
    engine.handle(DependenciesChanged("uid-q", reason(Code.WAITS_FOR_DEPENDENCY, dependencies="p")))
    engine.handle(DependenciesForgotten("uid-q"))


def heart_outcome():
    from extender.core.outcomes import Outcome

    return Outcome(OutcomeKind.THROTTLED, "slow down", 1.5)


def test_a_recorded_log_replays_to_byte_identical_instructions(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    recorder = recording.Recorder(path, "plain", {"x": 1}, Policy(scheduler_names=frozenset({"default-scheduler"})))
    engine = RecordedHeart(recorder)
    a_busy_day(engine)
    recorder.close()
    with path.open("rb") as file:
        header, steps = recording.read(file)
        again = [recording.encode_instructions(out) for _, out in recording.replay(header, steps, PlainAlgorithm())]
    assert header.settings == {"x": 1}
    assert again == engine.outs
    assert any(len(out) > 2 for out in again)


def test_every_kind_of_event_survives_the_log() -> None:
    seen = set(recording._EVENTS)
    assert len(seen) == 20
    line = recording.encode_step(recording.Step(1.0, Synced()))
    header = b'{"waggle":1,"algorithm":"packing","settings":{},"policy":{}}\n'
    _, steps = recording.read(io.BytesIO(header + line))
    assert list(steps) == [recording.Step(1.0, Synced())]


# -- what decides is in the head --------------------------------------------------------------------------------------


def head(**changed: object) -> recording.Header:
    policy = Policy(limits=Limits(gather=7.0), patience=3.0)
    text = recording.encode_header("packing", {}, policy)
    return msgspec.structs.replace(recording.read(io.BytesIO(text))[0], **changed)


def test_a_replay_uses_the_recorded_policy_and_limits() -> None:
    assert recording.policy_of(head()) == Policy(limits=Limits(gather=7.0), patience=3.0)
    assert recording.policy_of(head(policy={"patience": 3.0})) == Policy(patience=3.0)


def test_a_recording_with_an_older_name_in_its_policy_is_read() -> None:
    assert recording.policy_of(head(policy={"protection": 7.0})) == Policy(eviction_backoff=7.0)


@pytest.mark.parametrize(
    ("policy", "said"),
    [({"mercy": 1.0}, "mercy"), ({"limits": {"mercy": 1}}, "mercy"), ({"lease": "long"}, "lease")],
)
def test_a_policy_that_this_program_does_not_know_is_named(policy: dict[str, object], said: str) -> None:
    with pytest.raises(recording.RecordingError, match=said):
        list(recording.replay(head(policy=policy), iter(())))


def test_the_constants_of_engine_and_algorithm_are_in_the_head() -> None:
    found = head().constants
    assert found["algorithm.packing.gangs.MOST_MEMBERS"] == MOST_MEMBERS
    assert found["extender.scheduling.state.preemption_record.LONGEST_RECORD"] == LONGEST_RECORD
    assert not any(name.startswith("algorithm.hived") for name in found)


def test_a_recording_by_a_program_with_other_constants_is_refused_and_says_which_differ() -> None:
    known = {
        "algorithm.packing.gangs.MOST_MEMBERS": 7,
        "algorithm.packing.gone.MOST": 1,
        "algorithm.packing.gangs.OLD": 1,
    }
    with pytest.raises(recording.RecordingError, match=f"MOST_MEMBERS was 7, and is {MOST_MEMBERS} now") as raised:
        list(recording.replay(head(constants=known), iter(())))
    assert "algorithm.packing.gone.MOST was 1, and is not there any more" in str(raised.value)
    assert "algorithm.packing.gangs.OLD was 1, and is not there any more" in str(raised.value)
    steps = iter([recording.Step(1.0, Synced())])
    assert len(list(recording.replay(head(constants=known), steps, anyway=True))) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "log:1: no header"),
        (b"not json\n", "log:1: no header"),
        (b'{"waggle":9,"algorithm":"","settings":{},"policy":{}}\n', "format 9"),
        (b'{"waggle":1,"algorithm":"","settings":{},"policy":{}}\n{"at":1,"event":"Nope","data":{}}\n', "log:2"),
        (b'{"waggle":1,"algorithm":"","settings":{},"policy":{}}\n{"at":1,"event":"PodGone","data":{}}\n', "namespace"),
    ],
)
def test_a_broken_log_names_the_line(text: bytes, said: str) -> None:
    with pytest.raises(recording.RecordingError, match=said):
        list(recording.read(io.BytesIO(text))[1])


def test_settings_from_a_file_of_the_algorithms_own_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    settings = load("cells: [{cellAddress: 08, cellNumber: 2}]")
    recording.Recorder(path, "hived", settings, Policy(scheduler_names=frozenset())).close()
    with path.open("rb") as file:
        header, _ = recording.read(file)
    assert header.settings == {"cells": [{"cellAddress": "08", "cellNumber": "2"}]}


# -- who can read it ------------------------------------------------------------------------------------------------


def record_to(path: Path) -> None:
    recording.Recorder(path, "plain", {}, Policy()).close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("generous_umask")
def test_only_its_owner_can_read_a_recording(tmp_path: Path) -> None:
    record_to(tmp_path / "events.log")
    assert mode(tmp_path / "events.log") == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["events.log"]


@pytest.mark.usefixtures("generous_umask")
def test_a_recording_never_had_a_wider_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    opened = os.open

    def spy(path, flags, mode=0o777, **more):
        descriptor = opened(path, flags, mode, **more)
        modes.append((flags & os.O_EXCL, stat.S_IMODE(os.fstat(descriptor).st_mode)))
        return descriptor

    monkeypatch.setattr(os, "open", spy)
    recording.open_private(tmp_path / "events.log").close()
    assert modes == [(os.O_EXCL, 0o600)]


def test_a_file_that_was_there_shows_nothing_of_the_recording(tmp_path: Path) -> None:
    path, link = tmp_path / "events.log", tmp_path / "second-name"
    path.write_text("before")
    path.chmod(0o644)
    link.hardlink_to(path)
    with path.open() as reader:
        record_to(path)
        assert reader.read() == "before"
    assert link.read_text() == "before"
    assert mode(path) == 0o600
    assert path.read_bytes().startswith(b'{"waggle":1')


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_symbolic_link_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").write_text("before")
    path = tmp_path / "events.log"
    path.symlink_to(tmp_path / target)
    with pytest.raises(OSError, match=r"is a symbolic link.*events\.log"):
        record_to(path)
    assert (tmp_path / "there").read_text() == "before"
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="is no regular file"):
        record_to(pipe)
    with pytest.raises(OSError, match="is no regular file"):
        record_to(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    path.write_text("before")
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to another user"):
        record_to(path)
    assert path.read_text() == "before"


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("before")
    (tmp_path / f".events.log.{os.getpid()}.new").symlink_to(tmp_path / "victim")
    record_to(tmp_path / "events.log")
    assert (tmp_path / "victim").read_text() == "before"
    assert mode(tmp_path / "events.log") == 0o600


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        record_to(tmp_path / "nowhere" / "events.log")
