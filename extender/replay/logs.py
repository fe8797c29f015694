"""A recording as replay reads it: its head, and its steps from the first one on, as often as they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from extender.recording.log import Recording
from extender.recording.log import open_log as open_recordings
from extender.recording.records import Header, RecordingError, Step
from extender.recording.replaying import doubts, first_start
from extender.scheduling.machine import SchedulerStateMachine


@dataclass(frozen=True)
class Log:
    """The latest recording of a log: what is left of it, from the first point on from which it can be replayed."""

    path: Path
    recording: Recording

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def header(self) -> Header:
        return self.recording.header

    @property
    def epoch(self) -> float | None:
        """The time of day, in seconds since 1970, at 0 of the clock of the steps; None: unknown."""
        return self.header.epoch

    def steps(self) -> Iterator[Step]:
        """Read all steps. Raises RecordingError, naming the line, also if some are missing, and OSError."""
        for item in self.recording.steps(first_start(self.recording).number):
            if not isinstance(item, Step):
                raise RecordingError(f"{self.path}: events {item.first} to {item.last} are missing: {item.why}")
            yield item

    def first(self) -> Step:
        """Return the first step. Raises RecordingError if there is none."""
        with closing(self.steps()) as steps:  # type: ignore[type-var]
            found = next(steps, None)
        if found is None:
            raise RecordingError(f"{self.path}: the log has no event")
        return found

    def engine(self) -> SchedulerStateMachine:
        """Return a new engine as it was before the first of these steps. Raises RecordingError."""
        return first_start(self.recording).engine()


def open_log(path: Path, *, anyway: bool = False) -> Log:
    """Read the head of a log. Raises RecordingError, also if this program would decide otherwise, and OSError.

    `anyway`: a program with other constants is no reason to refuse.
    """
    recording = open_recordings(path).recordings[-1]
    if not anyway and (differs := doubts(recording)):
        raise RecordingError(f"{path}:1: recorded by a program that decides otherwise: {'; '.join(differs)}")
    return Log(path, recording)
