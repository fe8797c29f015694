"""A replay reads events ahead in batches. This changes nothing but the time that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithm.interface import SuggestedNodes
from extender.recording.log import open_log
from extender.recording.records import RecordingError, Step
from extender.recording.replaying import Replay, _read_ahead
from extender.scheduling.events import PrioritizeRequested, Ticked
from tests.support.engine.objects import pod
from tests.support.engine.scripted_log import two_nodes


@pytest.mark.parametrize("line", [b"{", b'{"number":9,"at":1,"event":"Nothing","data":{}}'])
def test_what_comes_before_a_line_that_cannot_be_read_is_replayed(tmp_path: Path, line: bytes) -> None:
    path = two_nodes().write(tmp_path / "log")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], line + b"\n", *lines[10:]]))
    replay = iter(Replay(open_log(path).recordings[0]))
    assert [next(replay).step.number for _ in range(7)] == [*range(1, 8)]
    with pytest.raises(RecordingError, match="log:10: no event"):  # the answer to the eighth might have been there
        next(replay)


def test_a_divergence_is_shown_though_a_line_after_it_cannot_be_read(tmp_path: Path) -> None:
    path = two_nodes().write(tmp_path / "log")
    lines = path.read_bytes().splitlines(keepends=True)
    asked = next(number for number, line in enumerate(lines) if b'"node":"n1"' in line and b"FilterAnswer" in line)
    lines[asked] = lines[asked].replace(b'"node":"n1"', b'"node":"n2"')
    path.write_bytes(b"".join([*lines[: asked + 2], b"{\n"]))
    replay = iter(Replay(open_log(path).recordings[0]))
    assert [next(replay).divergence is not None for _ in range(asked)] == [False] * (asked - 1) + [True]


def read_for_the_first(step: Step) -> int:
    """How many of many such steps are read before the first is handed on."""
    read = 0

    def steps() -> Iterator[Step]:
        nonlocal read
        while True:
            read += 1
            yield step

    next(_read_ahead(steps()))
    return read


def test_how_much_is_read_at_once_is_bounded() -> None:
    """By number, by the bytes of lines, and by the names that a short line can stand for."""
    offer = PrioritizeRequested(pod("p"), SuggestedNodes([f"n{number}" for number in range(300_000)]))
    assert read_for_the_first(Step(1.0, Ticked(), size=100)) == 64
    assert read_for_the_first(Step(1.0, Ticked(), size=1 << 25)) == 1
    assert read_for_the_first(Step(1.0, offer, size=100)) == 4
