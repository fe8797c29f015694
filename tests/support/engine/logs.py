"""Logs for tests: written as plain text, opened and replayed as any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from extender.recording.encoding import LineWriter, encode_instructions, header_of
from extender.recording.log import Recording, open_log
from extender.recording.replaying import Replay
from extender.scheduling.events import Event
from extender.scheduling.policy import Policy


class Listening:
    """Hears what a loop records."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, float]] = []
        self.numbers: list[int] = []
        self.answers: list[Sequence[Any] | str] = []

    def heard(self, event: Any, at: float, number: int) -> None:
        self.events.append((event, at))
        self.numbers.append(number)

    def said(self, answer: Sequence[Any]) -> None:
        self.answers.append(answer)

    def failed(self, why: str) -> None:
        self.answers.append(why)


def log_of(algorithm: str, policy: Policy, heard: Sequence[tuple[Event, float, list[Any]]], **header: Any) -> bytes:
    """What a server would have written about these events, times and answers, before it is compressed."""
    writer = LineWriter()
    lines = [writer.header(header_of(algorithm, {}, policy, recording="r", **header))]
    lines += [writer.event(number, at, event, out) for number, (event, at, out) in enumerate(heard, start=1)]
    return b"".join(lines)


def opened(log: bytes, folder: Path) -> Recording:
    """The only recording in a log."""
    path = folder / "log"
    path.write_bytes(log)
    (recording,) = open_log(path).recordings
    return recording


def replayed(log: bytes) -> tuple[Replay, list[bytes]]:
    """The log, replayed to its end; and all that the engine said. Asserts that nothing diverges."""
    with TemporaryDirectory() as folder:
        replay, said = Replay(opened(log, Path(folder))), []
        for played in replay:
            assert played.divergence is None, (played.step, played.divergence)
            said.append(encode_instructions(played.instructions))
    return replay, said
