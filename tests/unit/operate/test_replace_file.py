"""Files that commands write: what stands at the path already."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from extender.operate.output_files import replace_file
from tests.support.small_files import files_of_at_most


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    replace_file(pipe, b"plan", mode=0o600)
    reader.join(10)
    assert found == [b"plan"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_is_replaced_and_what_it_led_to_stays(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"keep")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    replace_file(tmp_path / "link", b"plan", mode=0o600)
    assert (tmp_path / "victim").read_bytes() == b"keep"
    assert (tmp_path / "link").read_bytes() == b"plan"


def test_a_folder_stays(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path, b"plan", mode=0o600)


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, old: bytes | None) -> None:
    """A part of a key, or of a snapshot, stayed beside it."""
    path = tmp_path / "tls.key"
    if old is not None:
        path.write_bytes(old)
    with files_of_at_most(1000), pytest.raises(OSError):
        replace_file(path, b"x" * 5000, mode=0o600)
    assert list(tmp_path.iterdir()) == ([] if old is None else [path])
    assert old is None or path.read_bytes() == old


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "tls.key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    replace_file(path, b"new", mode=0o600)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
