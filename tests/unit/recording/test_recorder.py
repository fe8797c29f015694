"""The recorder: what the engine hears and says ends in a folder that replays, stays small, and survives trouble."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from algorithm.interface import SuggestedNodes
from algorithm.registry import create
from extender.recording import checkpointer, disk, waiting
from extender.recording import recorder as module
from extender.recording.checkpointer import Source
from extender.recording.files import CHECKPOINT, LOG, CompressedFile, files_in, name_of
from extender.recording.log import open_log
from extender.recording.replaying import Replay
from extender.scheduling.events import (
    AlgorithmPrepared,
    FilterRequested,
    PodSeen,
    PrepareAlgorithm,
    ReconfigureRequested,
)
from tests.support.apiserver.api import eventually
from tests.support.engine.objects import pod
from tests.support.engine.recorded import Serving, quick


def numbers(folder: Path, kind: str) -> list[int]:
    return [each.number for each in files_in(folder) if each.kind == kind]


def test_what_was_recorded_replays_with_its_times(tmp_path: Path) -> None:
    serving = Serving(tmp_path / "log")
    serving.begin()
    serving.churn(5)
    serving.recorder.close()
    recording = serving.replay()
    steps = list(recording.steps())
    assert [step.number for step in steps] == list(range(1, 20))
    assert (recording.wall(steps[0].at), recording.ended, recording.remarks) == (1101.0, 19, [])
    assert (recording.header.release, recording.header.epoch) == ("9", 1000.0)


@pytest.mark.slow
def test_old_segments_are_deleted_and_the_rest_replays_from_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    serving = Serving(tmp_path / "log", 160_000)
    serving.begin()
    while numbers(tmp_path / "log", LOG)[0] < 3:
        serving.churn(20)
        # On a busy machine the folder is full before the next checkpoint is made, and then the recording ends.
        eventually(lambda: serving.recorder.status.queued == 0 and not serving.recorder._checkpointer.is_wanted)
        assert not serving.recorder.status.warning
    serving.recorder.close()
    recording = serving.replay()
    assert recording.header.first > 1
    assert recording.starts[0].head is not None
    assert sum(each.path.stat().st_size for each in files_in(tmp_path / "log")) < 160_000
    assert serving.recorder.status.checkpoints > 1


def test_a_checkpoint_for_which_the_folder_has_no_room_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state had grown while events were lost. The folder was larger than it may be."""
    quick(monkeypatch)
    monkeypatch.setattr(disk, "_RETRY", 60.0)
    folder, most = tmp_path / "log", 60_000
    serving = Serving(folder, most)
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0)
    next(folder.iterdir()).unlink()
    while not serving.recorder.status.warning:
        serving.churn(1)
        time.sleep(0.01)
    serving.handle(*(PodSeen(pod(secrets.token_hex(8))) for _ in range(2000)))
    eventually(lambda: serving.recorder.status.lost >= 2000)
    serving.recorder._disk._retry_at = 0.0
    largest = 0
    while "has ended" not in serving.recorder.status.warning:
        serving.churn(1)
        time.sleep(0.01)
        with contextlib.suppress(FileNotFoundError):  # it has its name now, or is deleted
            largest = max(largest, sum(each.stat().st_size for each in folder.iterdir()))
    serving.recorder.close()
    assert 0 < largest <= most
    assert "one takes more than" in serving.recorder.status.warning
    assert "bytes, for which the folder has no room" in serving.recorder.status.warning
    assert [each.suffix for each in folder.iterdir() if "checkpoint" in each.name] == []


def test_a_segment_that_is_old_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(module, "_SEGMENT_SECONDS", 0.0)
    monkeypatch.setattr(module, "_LEAST_OF_OLD", 0)
    serving = Serving(tmp_path / "log")
    serving.begin()
    eventually(lambda: len(numbers(tmp_path / "log", LOG)) > 1)
    serving.churn(2)
    serving.recorder.close()
    assert len(serving.replay().segments) > 1


def test_an_idle_recorder_sleeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is woken by the next event, not by a clock."""
    quick(monkeypatch)
    serving = Serving(tmp_path / "log")
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0 and serving.recorder._pause() is None)
    turns = []
    monkeypatch.setattr(serving.recorder, "_turn", lambda: turns.append(1))
    time.sleep(0.3)
    assert len(turns) <= 1
    monkeypatch.undo()
    serving.churn(1)
    eventually(lambda: serving.recorder.status.queued == 0)
    serving.recorder.close()
    serving.replay()


def test_a_restarted_server_goes_on_in_the_same_folder(tmp_path: Path) -> None:
    for run in range(3):
        serving = Serving(tmp_path / "log")
        serving.begin()
        serving.churn(run)
        serving.recorder.close()
    assert numbers(tmp_path / "log", LOG) == [1, 2, 3]
    found = open_log(tmp_path / "log").recordings
    assert len({each.header.recording for each in found}) == 3
    assert [sum(1 for _ in each.steps()) for each in found] == [4, 7, 10]


def test_what_was_written_is_read_while_the_server_still_runs_or_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    serving = Serving(tmp_path / "log")
    serving.begin()
    serving.churn(2)
    eventually(lambda: len(list(open_log(tmp_path / "log").recordings[0].steps())) == 10)
    recording = open_log(tmp_path / "log").recordings[0]
    assert len(list(recording.steps())) == 10
    assert "(the server was killed, or still runs)" in recording.remarks[0]
    serving.recorder.close()


def test_a_full_queue_loses_events_which_is_said_counted_and_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_MOST_EVENTS", 10)
    serving = Serving(tmp_path / "log")
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0)
    serving.recorder._waiting.is_awake = True  # it sleeps on
    serving.churn(20)
    assert "too slow" in serving.recorder.status.warning
    lost = serving.recorder.status.lost
    assert lost > 40
    serving.recorder._waiting.is_awake = False
    serving.recorder._waiting.wake.set()
    eventually(lambda: serving.recorder.status.queued == 0)
    serving.churn(1)
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    assert serving.recorder.status.warning == ""
    serving.churn(2)
    serving.recorder.close()
    recording = open_log(tmp_path / "log").recordings[0]
    replay = Replay(recording)
    assert not [played for played in replay if played.divergence]
    assert replay.number == serving.machine.sequence
    (gap,) = replay.gaps
    assert (gap.why, gap.last - gap.first >= lost - 1) == ("the recorder could not keep up", True)


def test_a_full_disk_interrupts_the_recording_which_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(disk, "_RETRY", 0.05)
    full = threading.Event()
    put = CompressedFile._put

    def on_disk(self: CompressedFile, data: bytes) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path))
        put(self, data)

    monkeypatch.setattr(CompressedFile, "_put", on_disk)
    serving = Serving(tmp_path / "log")
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0)
    full.set()
    serving.churn(3)
    eventually(lambda: "No space left" in serving.recorder.status.warning)
    serving.churn(3)
    eventually(lambda: serving.recorder.status.lost > 0)
    full.clear()
    while serving.recorder.status.warning:
        serving.churn(1)
        time.sleep(0.02)
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    serving.churn(2)
    serving.recorder.close()
    recording = open_log(tmp_path / "log").recordings[0]
    replay = Replay(recording)
    assert not [played for played in replay if played.divergence]
    assert replay.number == serving.machine.sequence
    (gap,) = replay.gaps
    assert "No space left on device" in gap.why


def test_each_attempt_on_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file of no bytes fits on it, its header does not. Such files made the whole folder unreadable."""
    quick(monkeypatch)
    monkeypatch.setattr(disk, "_RETRY", 0.01)
    full = threading.Event()
    flush = CompressedFile.flush

    def on_disk(self: CompressedFile) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(self)

    monkeypatch.setattr(CompressedFile, "flush", on_disk)
    serving = Serving(tmp_path / "log")
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0 and serving.recorder._pause() is None)
    full.set()
    for _ in range(5):
        before = serving.recorder.status.lost
        serving.churn(1)
        eventually(lambda before=before: serving.recorder.status.lost >= before + 3)
    assert numbers(tmp_path / "log", LOG) == [1]
    full.clear()
    while serving.recorder.status.warning:
        serving.churn(1)
        time.sleep(0.02)
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    serving.recorder.close()
    assert numbers(tmp_path / "log", LOG) == [1, 2]
    replay = Replay(open_log(tmp_path / "log").recordings[0])
    assert not [played for played in replay if played.divergence]
    ((first, last, _),) = replay.gaps
    assert (first, serving.recorder.status.lost >= 15) == (5, True)
    assert last >= 4 + serving.recorder.status.lost


def test_events_that_were_not_flushed_count_as_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(module, "_FLUSH", 3600.0)
    serving = Serving(tmp_path / "log")
    serving.begin()
    serving.churn(2)
    eventually(lambda: serving.recorder.status.queued == 0)
    assert serving.recorder.status[:2] == (10, 0)

    def no_room(self: CompressedFile, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CompressedFile, "_put", no_room)
    serving.recorder.close()
    assert serving.recorder.status[:2] == (0, 10)


@pytest.mark.parametrize("what", ["the folder", "the folder, moved", "the file"])
def test_what_somebody_deletes_is_made_again(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written to a deleted file is lost without an error of the system."""
    quick(monkeypatch)
    monkeypatch.setattr(disk, "_RETRY", 0.0)
    folder = tmp_path / "log"
    serving = Serving(folder)
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0 and serving.recorder._pause() is None)
    if what == "the file":
        (folder / f"000001.{LOG}.gz").unlink()
    elif what == "the folder":
        shutil.rmtree(folder)
    else:
        folder.rename(tmp_path / "moved")
    serving.churn(1)
    eventually(lambda: f"000001.{LOG}.gz" in serving.recorder.status.warning)
    serving.churn(2)
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    assert serving.recorder.status.warning == ""
    assert serving.recorder.status.lost >= 3
    serving.churn(1)
    serving.recorder.close()
    assert folder.stat().st_mode & 0o777 == 0o700
    replay = Replay(open_log(folder).recordings[0])
    assert not [played for played in replay if played.divergence]
    assert replay.number == serving.machine.sequence
    if what == "the folder, moved":
        assert [sum(1 for _ in each.steps()) for each in open_log(tmp_path / "moved").recordings] == [7]


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder measures by the monotonic clock; the times of the log are those of the engine's clock."""
    quick(monkeypatch)
    serving = Serving(tmp_path / "log")
    serving.begin()
    monkeypatch.setattr(time, "time", lambda: -1e6)
    serving.churn(2)
    eventually(lambda: serving.recorder.status.queued == 0)
    serving.recorder.close()
    assert serving.recorder.status.warning == ""
    recording = serving.replay()
    walls = [recording.wall(step.at) for step in recording.steps()]
    assert walls == sorted(walls)


def test_the_end_of_a_server_whose_disk_is_full_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(tmp_path / "log")
    serving.begin()

    def no_room(self: CompressedFile, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CompressedFile, "_put", no_room)
    serving.churn(3)
    serving.recorder.close()
    assert not serving.recorder._thread.is_alive()


def test_a_copy_by_somebody_else_comes_first_and_the_checkpoint_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(checkpointer, "_AGAIN", 0.02)
    serving = Serving(tmp_path / "log", attached=False)
    copying = threading.Lock()
    serving.recorder.attach(Source(serving.machine, serving.in_turns, copying))
    serving.begin()
    with copying:
        serving.recorder._want_checkpoint()
        time.sleep(0.2)
        assert serving.recorder.status.checkpoints == 0
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    serving.recorder.close()


def test_a_checkpoint_that_cannot_be_written_is_told_until_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(checkpointer, "_AGAIN", 0.02)
    serving = Serving(tmp_path / "log")
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0)
    path = tmp_path / "log" / name_of(serving.recorder._number, CHECKPOINT)
    in_the_way = path.with_name(f".{path.name}.{os.getpid()}.new")
    in_the_way.mkdir()
    with structlog.testing.capture_logs() as logged:
        serving.recorder._want_checkpoint()
        eventually(lambda: "a checkpoint cannot be written" in serving.recorder.status.warning)
        time.sleep(0.2)
        in_the_way.rmdir()
        eventually(lambda: serving.recorder.status.checkpoints == 1)
    assert serving.recorder.status.warning == ""
    serving.recorder.close()
    assert [each["event"] for each in logged] == ["a checkpoint cannot be written, and is tried again"]


def test_no_checkpoint_is_taken_while_settings_are_being_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy would lack the algorithm that is being prepared, and a replay from it would refuse the change."""
    quick(monkeypatch)
    monkeypatch.setattr(checkpointer, "_AGAIN", 0.02)
    serving = Serving(tmp_path / "log")
    serving.begin()
    serving.handle(ReconfigureRequested(1, "packing", {"strategy": "spread"}))
    serving.machine.preparations.carry_out(PrepareAlgorithm(1, "packing", {"strategy": "spread"}), create)
    serving.recorder._want_checkpoint()
    time.sleep(0.2)
    assert serving.recorder.status.checkpoints == 0
    serving.handle(AlgorithmPrepared(1))
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    serving.churn(3)
    serving.recorder.close()
    recording = serving.replay()
    later = Replay(recording, start=recording.starts[-1])
    assert not [played for played in later if played.divergence]
    assert later.engine.driver.algorithm.settings.strategy == "spread"


def test_a_hanging_engine_leaves_the_event_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    serving = Serving(tmp_path / "log")
    serving.begin()
    asked = FilterRequested(pod("p"), SuggestedNodes(["n0"]))
    serving.recorder.heard(asked, 200.0, 5)
    read = lambda: list(open_log(tmp_path / "log").recordings[0].steps())  # noqa: E731
    eventually(lambda: len(read()) == 5)
    assert (read()[-1].event, read()[-1].said) == (asked, None)
    serving.recorder.said([])
    serving.recorder.close()
    assert read()[-1].said is not None
    assert open_log(tmp_path / "log").recordings[0].starts


def test_a_disk_that_does_not_answer_stops_no_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(module, "_MOST_TO_CLOSE", 0.1)
    answers = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _descriptor: answers.wait(60))
    serving = Serving(tmp_path / "log")
    serving.begin()
    serving.churn(2)
    with structlog.testing.capture_logs() as logged:
        serving.recorder.close()
    assert [each["event"] for each in logged] == ["recording lacks its end: the disk does not answer"]
    answers.set()
    serving.recorder.close()
    assert open_log(tmp_path / "log").recordings[0].starts


def test_a_late_answer_is_in_the_segment_of_its_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that ended between both made the whole recording unreadable."""
    quick(monkeypatch)
    for name, value in (("_PATIENCE", 0.05), ("_SEGMENT_SECONDS", 0.0), ("_LEAST_OF_OLD", 0)):
        monkeypatch.setattr(module, name, value)
    serving = Serving(tmp_path / "log")
    serving.begin()
    asked = FilterRequested(pod("p"), SuggestedNodes(["n0"]))
    serving.recorder.heard(asked, serving.now, serving.machine.sequence + 1)
    answer = serving.machine.handle(asked, serving.now)
    eventually(lambda: serving.recorder.status.events == 5)
    time.sleep(0.1)  # the segment is old enough all the time
    serving.recorder.said(answer)
    serving.churn(2)
    serving.recorder.close()
    assert list(serving.replay().steps())[4].said is not None
    assert len(numbers(tmp_path / "log", LOG)) > 1


def test_an_answer_after_a_fault_of_the_disk_is_left_out_if_its_event_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    monkeypatch.setattr(disk, "_RETRY", 0.01)
    serving = Serving(tmp_path / "log")
    serving.begin()
    asked = FilterRequested(pod("p"), SuggestedNodes(["n0"]))
    serving.recorder.heard(asked, serving.now, serving.machine.sequence + 1)
    answer = serving.machine.handle(asked, serving.now)
    eventually(lambda: serving.recorder.status.events == 5)
    [segment] = (tmp_path / "log").iterdir()
    segment.rename(tmp_path / "elsewhere")  # the recorder takes that for a fault
    eventually(lambda: serving.recorder.status.warning != "")
    (tmp_path / "elsewhere").rename(segment)
    serving.recorder.said(answer)
    while serving.recorder.status.warning:
        serving.churn(1)
        time.sleep(0.02)
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    serving.churn(2)
    serving.recorder.close()
    recording = serving.replay()
    assert list(recording.steps())[4].said is None
    assert [each.header.first for each in recording.segments][1] > 5


class _Ends(list[Any]):
    """An answer that ends the process when it is looked at."""

    def __init__(self, error: BaseException) -> None:
        super().__init__([1])
        self.error = error

    def __iter__(self) -> Iterator[Any]:
        raise self.error


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=lambda each: type(each).__name__
)
def test_an_answer_that_ends_threads_is_lost_which_is_said_and_the_recording_goes_on(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    serving = Serving(tmp_path / "log")
    serving.begin()
    asked = FilterRequested(pod("p"), SuggestedNodes(["n0"]))
    serving.recorder.heard(asked, serving.now, serving.machine.sequence + 1)
    serving.machine.handle(asked, serving.now)
    with structlog.testing.capture_logs() as logs:
        serving.recorder.said(_Ends(error))
        eventually(lambda: serving.recorder.status.lost == 1)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["an event cannot be recorded"]
    serving.churn(1)
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    serving.churn(2)
    serving.recorder.close()
    replay = Replay(open_log(tmp_path / "log").recordings[0])
    assert not [played for played in replay if played.divergence]
    assert replay.number == serving.machine.sequence
    (gap,) = replay.gaps
    assert f"event 5 cannot be written: {type(error).__name__}" in gap.why


@pytest.mark.slow
def test_an_algorithm_without_copies_keeps_its_first_segment_until_the_folder_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    serving = Serving(tmp_path / "log", 160_000)
    monkeypatch.setattr(type(serving.machine.driver.algorithm), "forks", _cannot)
    serving.begin()
    while not serving.recorder.status.warning:
        serving.churn(20)
        time.sleep(0.01)
    assert "no checkpoints can be made (no copies)" in serving.recorder.status.warning
    serving.recorder.close()
    recording = open_log(tmp_path / "log").recordings[0]
    assert recording.header.first == 1
    assert not [played for played in Replay(recording) if played.divergence]
    assert sum(each.path.stat().st_size for each in files_in(tmp_path / "log")) <= 160_000
    (remark,) = recording.remarks
    assert "and the server went on: 0 MiB are full, and no checkpoints can be made (no copies)" in remark
    assert recording.ended is None


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), pytest.param(KeyboardInterrupt(), marks=pytest.mark.slow)],
    ids=lambda each: type(each).__name__,
)
def test_an_algorithm_that_ends_threads_as_it_is_copied_gets_no_checkpoints_and_is_recorded(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(_self: Any) -> Iterator[Any]:
        raise error

    quick(monkeypatch)
    serving = Serving(tmp_path / "log")
    monkeypatch.setattr(type(serving.machine.driver.algorithm), "forks", ends)
    serving.begin()
    serving.recorder._want_checkpoint()
    making = serving.recorder._checkpointer
    assert making is not None
    eventually(lambda: type(error).__name__ in making.impossible)
    serving.churn(3)
    serving.recorder.close()
    recording = serving.replay()
    assert recording.ended == serving.machine.sequence


def _cannot(self: Any) -> Iterator[Any]:
    raise NotImplementedError("no copies")


def test_the_file_of_an_event_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    serving = Serving(tmp_path / "log", 160_000)
    serving.begin()
    while serving.recorder.status.segments < 3:
        serving.churn(20)
        time.sleep(0.01)
    serving.recorder.close()
    begun = {each.header.first: each.path.name for each in open_log(tmp_path / "log").recordings[0].segments}
    for first, name in begun.items():
        assert serving.recorder.file_of(first) == name
        assert first == 1 or serving.recorder.file_of(first - 1) == begun[max(each for each in begun if each < first)]
    assert serving.recorder.file_of(0) == ""
