"""Old files are deleted in groups that begin where a replay can begin; the last such group stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.recording.encoding import LineWriter, header_of
from extender.recording.files import CHECKPOINT, LOG, CompressedFile, OwnFolder, files_in, name_of
from extender.recording.retention import Retention
from extender.scheduling.policy import Policy


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[OwnFolder]:
    made = OwnFolder(tmp_path / "log")
    yield made
    made.close()


def put(folder: OwnFolder, number: int, kind: str = LOG, size: int = 100) -> tuple[int, Path, int]:
    path = folder.path / name_of(number, kind)
    path.write_bytes(b"x" * size)
    return number, path, size


def numbers(folder: OwnFolder) -> list[str]:
    return [f"{each.number}{'c' if each.kind == CHECKPOINT else ''}" for each in files_in(folder.path)]


def filled(folder: OwnFolder, most: int) -> Retention:
    """A run of six segments, the third and the fifth with a checkpoint."""
    retention = Retention(folder, most)
    for number in range(1, 7):
        retention.add(*put(folder, number), is_start=number == 1)
        if number in (3, 5):
            retention.add(*put(folder, number, CHECKPOINT, 50), is_start=True)
    return retention


def test_nothing_is_deleted_while_there_is_room(folder: OwnFolder) -> None:
    retention = filled(folder, 1000)
    assert retention.bytes == 700
    assert retention.tidy(300, 6)
    assert len(numbers(folder)) == 8


@pytest.mark.parametrize(
    ("room", "left"),
    [
        (301, ["3c", "3", "4", "5c", "5", "6"]),
        (500, ["3c", "3", "4", "5c", "5", "6"]),
        (501, ["5c", "5", "6"]),
        (750, ["5c", "5", "6"]),
    ],
)
def test_whole_groups_are_deleted_the_oldest_first(folder: OwnFolder, room: int, left: list[str]) -> None:
    assert filled(folder, 1000).tidy(room, 6)
    assert numbers(folder) == left


def test_the_last_point_where_a_replay_can_begin_stays(folder: OwnFolder) -> None:
    assert not filled(folder, 1000).tidy(900, 6)
    assert numbers(folder) == ["5c", "5", "6"]


def test_without_checkpoints_the_first_segment_stays(folder: OwnFolder) -> None:
    retention = Retention(folder, 300)
    for number in (1, 2, 3):
        retention.add(*put(folder, number), is_start=number == 1)
    assert not retention.tidy(200, 3)
    assert numbers(folder) == ["1", "2", "3"]


def test_earlier_runs_go_first_and_each_as_a_whole(folder: OwnFolder) -> None:
    for number, first in ((1, 1), (2, 50), (3, 1)):
        header = header_of("packing", {}, Policy(), recording=f"run {number // 3}")
        file = CompressedFile(folder.path / name_of(number, LOG))
        file.write(LineWriter().header(header).replace(b'"first":1', b'"first":%d' % first))
        file.finish()
    size = sum(each.path.stat().st_size for each in files_in(folder.path))
    retention = Retention(folder, size + 100)
    retention.add(*put(folder, 4), is_start=True)
    assert retention.tidy(10, 4)
    assert numbers(folder) == ["3", "4"]
    assert retention.tidy(size, 4)
    assert numbers(folder) == ["4"]
    assert not retention.tidy(size + 100, 4)


def test_a_file_that_is_gone_already_does_not_matter(folder: OwnFolder) -> None:
    retention = filled(folder, 1000)
    (folder.path / name_of(1, LOG)).unlink()
    assert retention.tidy(301, 6)
    assert retention.bytes == 500
