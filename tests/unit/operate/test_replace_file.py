"""Files that commands write: what stands at the path already."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from extender.operate.certs import replace_file


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
