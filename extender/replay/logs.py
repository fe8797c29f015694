"""A recording as replay reads it: its head, and its steps from the first one on, as often as they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from algorithm.registry import create
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.constants import differences
from extender.server.recording import Header, RecordingError, Step, policy_of, read


@dataclass(frozen=True)
class Log:
    """A log file. `epoch` is the time of day, in seconds since 1970, at 0 of the clock of the steps; None: unknown."""

    path: Path
    header: Header
    epoch: float | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def steps(self) -> Iterator[Step]:
        """Read all steps. Raises RecordingError, naming the line, and OSError."""
        with self.path.open("rb") as file:
            yield from read(file, str(self.path))[1]

    def first(self) -> Step:
        """Return the first step. Raises RecordingError if there is none."""
        with closing(self.steps()) as steps:  # type: ignore[type-var]
            found = next(steps, None)
        if found is None:
            raise RecordingError(f"{self.path}: the log has no event")
        return found

    def engine(self) -> SchedulerStateMachine:
        """Return a fresh engine as the recorded one began. Raises RecordingError, AlgorithmError."""
        algorithm = create(self.header.algorithm, self.header.settings)
        return SchedulerStateMachine(algorithm, policy_of(self.header), epoch=self.epoch)


def open_log(path: Path, *, anyway: bool = False) -> Log:
    """Read the head of a log. Raises RecordingError, also if this program would decide otherwise, and OSError.

    `anyway`: a program with other constants is no reason to refuse.
    """
    with path.open("rb") as file:
        header, _ = read(file, str(path))
    if not anyway and (differs := differences(header.constants)):
        raise RecordingError(f"{path}:1: recorded by a program that decides otherwise: {'; '.join(differs)}")
    return Log(path, header)
