"""A disk that is full before the folder is: the oldest segments are deleted, and the recording goes on."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from extender.recording import disk
from extender.recording.files import LOG, CompressedFile, files_in
from extender.recording.log import open_log
from extender.recording.replaying import Replay
from tests.support.apiserver.api import eventually
from tests.support.engine.recorded import Serving, quick

#: Bytes that the folder may have, and that the disk has. A segment has a sixteenth of the first.
_MOST, _DISK = 240_000, 110_000


class SmallDisk:
    """A disk of so many bytes, as far as a recording's folder fills it."""

    def __init__(self, folder: Path, size: int, number: int) -> None:
        self.folder, self.size, self.number = folder, size, number

    def limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        put = CompressedFile._put

        def limited(file: CompressedFile, data: bytes) -> None:
            if sum(each.stat().st_size for each in self.folder.iterdir()) + len(data) > self.size:
                raise OSError(self.number, "the disk is full", str(file.path))
            put(file, data)

        monkeypatch.setattr(CompressedFile, "_put", limited)


def numbers(folder: Path) -> list[int]:
    return [each.number for each in files_in(folder) if each.kind == LOG]


def churn_until(serving: Serving, condition: Callable[[], bool]) -> None:
    while not condition():
        serving.churn(20)
        eventually(lambda: serving.recorder.status.queued == 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    quick(monkeypatch)
    monkeypatch.setattr(disk, "_RETRY", 3600.0)  # only what is tried at once can help
    return tmp_path / "log"


@pytest.mark.slow
def test_the_oldest_segments_are_deleted_when_the_disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SmallDisk(folder, _DISK, errno.ENOSPC).limit(monkeypatch)
    with structlog.testing.capture_logs() as logged:
        serving = Serving(folder, _MOST)
        serving.begin()
        churn_until(serving, lambda: numbers(folder)[0] > 4 and serving.recorder.status.lost > 0)
        serving.churn(1)
        eventually(lambda: serving.recorder.status.queued == 0 and not serving.recorder._checkpointer.is_wanted)
        warning = serving.recorder.status.warning
        serving.churn(2)
        serving.recorder.close()
    assert warning == "the disk was full when the recording had 0.1 MiB: its oldest segments were deleted"
    told = [each for each in logged if each["event"].startswith("the disk is full")]
    assert len(told) == 1
    assert told[0]["bytes"] > 0
    recording = open_log(folder).recordings[0]
    replay = Replay(recording)
    assert not [played for played in replay if played.divergence]
    assert replay.number == serving.machine.sequence
    assert serving.recorder.status.events + serving.recorder.status.lost == serving.machine.sequence


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_server_that_starts_on_a_full_disk_deletes_what_earlier_ones_recorded(
    folder: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        before = Serving(folder, _MOST)
        before.begin()
        before.churn(200)
        before.recorder.close()
    size = sum(each.stat().st_size for each in folder.iterdir())
    SmallDisk(folder, size, number).limit(monkeypatch)
    serving = Serving(folder, 64 << 10)
    serving.begin()
    serving.recorder.close()
    assert numbers(folder)[0] > 1
    assert list(serving.replay().steps())


def test_what_a_replay_needs_is_kept_though_the_disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(folder, _MOST, attached=False)
    serving.begin()
    churn_until(serving, lambda: len(numbers(folder)) > 2)
    SmallDisk(folder, 0, errno.ENOSPC).limit(monkeypatch)
    churn_until(serving, lambda: "the disk is full" in serving.recorder.status.warning)
    serving.recorder.close()
    assert numbers(folder)[0] == 1
    assert serving.recorder.status.warning.startswith("events are not recorded: ")


def test_other_faults_of_the_disk_delete_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        serving = Serving(folder, _MOST)
        serving.begin()
        serving.churn(1)
        if numbers(folder) == [1]:
            serving.recorder.close()
    SmallDisk(folder, 0, errno.EIO).limit(monkeypatch)
    churn_until(serving, lambda: serving.recorder.status.warning != "")
    serving.recorder.close()
    assert numbers(folder) == [1, 2]


@pytest.mark.slow
def test_a_disk_that_somebody_else_fills_takes_not_all_segments_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(8):
        serving = Serving(folder, 160_000)
        serving.begin()
        serving.churn(200)
        serving.recorder.close()
    serving = Serving(folder, 160_000)
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0)
    own = numbers(folder)[-1]
    SmallDisk(folder, 0, errno.ENOSPC).limit(monkeypatch)
    churn_until(serving, lambda: serving.recorder._disk.is_waiting)
    left = numbers(folder)
    serving.churn(5)
    eventually(lambda: serving.recorder.status.queued == 0)
    serving.recorder.close()
    assert numbers(folder) == left
    assert 1 < left[0] < own - 1
    assert "events are not recorded" in serving.recorder.status.warning


def test_a_checkpoint_for_which_the_disk_has_no_room_is_made_once_old_segments_are_deleted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Serving(folder, _MOST)
    before.begin()
    before.churn(200)
    before.recorder.close()
    serving = Serving(folder, _MOST)
    serving.begin()
    eventually(lambda: serving.recorder.status.queued == 0)
    SmallDisk(folder, sum(each.stat().st_size for each in folder.iterdir()), errno.ENOSPC).limit(monkeypatch)
    serving.recorder._want_checkpoint()
    eventually(lambda: serving.recorder.status.checkpoints == 1)
    assert numbers(folder) == [2]
    serving.recorder.close()
