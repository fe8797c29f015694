"""Who can read a recording, and what is never overwritten: files, folders, links, other users."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.recording.files import CHECKPOINT, LOG, CompressedFile, OwnFolder, files_in, name_of, open_private
from extender.recording.recorder import Recorder
from extender.scheduling.policy import Policy


def record_to(folder: Path) -> None:
    Recorder(folder, "packing", {}, Policy()).close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


# -- folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("generous_umask")
def test_only_its_owner_can_enter_the_folder_and_read_its_files(tmp_path: Path) -> None:
    record_to(tmp_path / "log")
    assert mode(tmp_path / "log") == 0o700
    assert {mode(each) for each in (tmp_path / "log").iterdir()} == {0o600}


@pytest.mark.usefixtures("generous_umask")
def test_a_folder_of_our_own_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir(mode=0o777)
    record_to(tmp_path / "log")
    assert mode(tmp_path / "log") == 0o700


def test_a_folder_with_files_of_others_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("before")
    tmp_path.chmod(0o755)
    with pytest.raises(OSError, match=r"has other files \(diary.txt\)"):
        record_to(tmp_path)
    assert mode(tmp_path) == 0o755
    assert [each.name for each in tmp_path.iterdir()] == ["diary.txt"]


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_symbolic_link_in_the_place_of_the_folder_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "log").symlink_to(tmp_path / target)
    with pytest.raises(OSError, match=r"is a symbolic link.*log"):
        record_to(tmp_path / "log")
    assert not list((tmp_path / "there").iterdir())


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a recording of an earlier release")
    with pytest.raises(OSError, match="is no folder"):
        record_to(tmp_path / "log")
    assert (tmp_path / "log").read_text() == "a recording of an earlier release"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    os.chown(tmp_path / "log", 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to another user"):
        record_to(tmp_path / "log")


def test_a_folder_that_is_recorded_into_is_refused_to_a_second_server(tmp_path: Path) -> None:
    first = Recorder(tmp_path / "log", "packing", {}, Policy())
    with pytest.raises(OSError, match="another Waggle records into it"):
        record_to(tmp_path / "log")
    first.close()
    record_to(tmp_path / "log")


def test_a_folder_whose_parent_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        record_to(tmp_path / "nowhere" / "log")


def test_what_a_killed_server_left_half_written_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / f".000007.{CHECKPOINT}.gz.123.new").write_text("half")
    record_to(folder)
    assert [each.name for each in folder.iterdir()] == [f"000001.{LOG}.gz"]


def test_numbers_go_on_and_end(tmp_path: Path) -> None:
    folder = OwnFolder(tmp_path / "log")
    (folder.path / name_of(41, LOG)).touch()
    (folder.path / name_of(42, CHECKPOINT)).touch()
    assert folder.next_number() == 43
    assert [(each.number, each.kind) for each in files_in(folder.path)] == [(41, LOG), (42, CHECKPOINT)]
    (folder.path / name_of(999_999, LOG)).touch()
    with pytest.raises(OSError, match="use another folder"):
        folder.next_number()
    folder.close()


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("generous_umask")
def test_a_file_never_had_a_wider_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    opened = os.open

    def spy(path, flags, mode=0o777, **more):
        descriptor = opened(path, flags, mode, **more)
        modes.append((flags & os.O_EXCL, stat.S_IMODE(os.fstat(descriptor).st_mode)))
        return descriptor

    monkeypatch.setattr(os, "open", spy)
    open_private(tmp_path / "events.log").close()
    CompressedFile(tmp_path / "other", complete=True).finish()
    assert modes == [(os.O_EXCL, 0o600)] * 2


def test_a_file_that_was_there_shows_nothing_of_the_recording(tmp_path: Path) -> None:
    path, link = tmp_path / "events.log", tmp_path / "second-name"
    path.write_text("before")
    path.chmod(0o644)
    link.hardlink_to(path)
    with path.open() as reader, open_private(path) as file:
        file.write(b"secret")
        file.flush()
        assert reader.read() == "before"
    assert link.read_text() == "before"
    assert (mode(path), path.read_bytes()) == (0o600, b"secret")


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_symbolic_link_in_the_place_of_a_file_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").write_text("before")
    path = tmp_path / "events.log"
    path.symlink_to(tmp_path / target)
    for opening in (open_private, lambda path: CompressedFile(path, complete=True)):
        with pytest.raises(OSError, match=r"is a symbolic link.*events\.log"):
            opening(path)
    assert (tmp_path / "there").read_text() == "before"
    assert not (tmp_path / "nowhere").exists()


def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is no regular file"):
        open_private(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    path.write_text("before")
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to another user"):
        open_private(path)
    assert path.read_text() == "before"


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("before")
    (tmp_path / f".events.log.{os.getpid()}.new").symlink_to(tmp_path / "victim")
    open_private(tmp_path / "events.log").close()
    assert (tmp_path / "victim").read_text() == "before"
    assert mode(tmp_path / "events.log") == 0o600


def test_what_was_flushed_is_there_and_a_complete_file_only_at_its_end(tmp_path: Path) -> None:
    file, whole = CompressedFile(tmp_path / "a"), CompressedFile(tmp_path / "b", complete=True)
    for each in (file, whole):
        each.write(b"one\n")
        each.flush()
        each.write(b"two\n")
    assert zlib.decompressobj(31).decompress((tmp_path / "a").read_bytes()) == b"one\n"
    assert not (tmp_path / "b").exists()
    whole.finish()
    assert zlib.decompressobj(31).decompress((tmp_path / "b").read_bytes()) == b"one\ntwo\n"
    assert whole.bytes == (tmp_path / "b").stat().st_size
    file.abandon()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]


def test_an_abandoned_complete_file_leaves_nothing(tmp_path: Path) -> None:
    CompressedFile(tmp_path / "a", complete=True).abandon()
    assert not list(tmp_path.iterdir())


def test_an_error_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a"
    for complete in (False, True):
        with pytest.raises(FileNotFoundError) as caught:
            CompressedFile(path, complete=complete)
        assert caught.value.filename == str(path)
