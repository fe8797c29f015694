"""Files that commands write: whole, or as they were."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.operate.output_files import TERMINATED, OutputError, check_outputs, ended_by_sigterm, write_output
from tests.support.small_files import files_of_at_most


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, old: bytes | None) -> None:
    path = tmp_path / "out.json"
    if old is not None:
        path.write_bytes(old)
    with files_of_at_most(1000), pytest.raises(OSError) as caught:
        write_output(path, b"x" * 5000)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert list(tmp_path.iterdir()) == ([] if old is None else [path])
    assert old is None or path.read_bytes() == old


def test_a_file_is_replaced_and_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_bytes(b"a longer old text")
    path.chmod(0o640)
    link.symlink_to("out")
    write_output(link, "né\n")
    assert path.read_bytes() == "né\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "out"]


def test_what_a_killed_process_of_this_number_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / f".waggle-{os.getpid()}.new").write_bytes(b"half")
    write_output(tmp_path / "out", b"whole")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("out", b"whole")]


def test_pieces_are_one_file_and_a_piece_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_output(path, iter((b"one ", b"two")))
    assert path.read_bytes() == b"one two"

    def failing() -> Iterator[bytes]:
        yield b"three"
        raise MemoryError

    with pytest.raises(MemoryError):
        write_output(path, failing())
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"out": b"one two"}


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_output(tmp_path / "out", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_devices_are_written_to() -> None:
    write_output(Path("/dev/null"), b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_what_a_command_reads_it_does_not_write(tmp_path: Path) -> None:
    trace, nodes, folder = tmp_path / "trace", tmp_path / "nodes", tmp_path / "folder"
    folder.mkdir()
    for path in (trace, nodes, folder / "part"):
        path.write_text("input")
    (tmp_path / "link").symlink_to(nodes)
    inputs = [trace, nodes, folder, tmp_path / "gone"]
    for path, why in (
        (trace, "is a file that this command reads"),
        (tmp_path / "link", "is a file that this command reads"),
        (folder / "part", "is a file that this command reads"),
        (folder, "expected a file in a folder that exists"),
        (tmp_path / "none" / "out", "expected a file in a folder that exists"),
    ):
        with pytest.raises(OutputError, match=why) as caught:
            check_outputs([("--html", path)], inputs)
        assert str(caught.value).startswith(f"--html: {path}")
    check_outputs([("--html", tmp_path / "new"), ("--json", Path("-")), ("--out", None)], inputs)
    with pytest.raises(OutputError, match="is also the file of --html"):
        check_outputs([("--html", tmp_path / "new"), ("--json", tmp_path / "folder" / ".." / "new")], inputs)


def test_sigterm_runs_what_cleans_up() -> None:
    cleaned, before = [], signal.getsignal(signal.SIGTERM)

    def ended() -> None:
        with ended_by_sigterm():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                cleaned.append(1)

    with pytest.raises(SystemExit) as caught:
        ended()
    assert (caught.value.code, cleaned) == (TERMINATED, [1])
    assert signal.getsignal(signal.SIGTERM) is before
