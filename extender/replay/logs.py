"""A recording as replay reads it: its head, where it can begin, and its steps, as often as they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from extender.recording.checkpoint import Start
from extender.recording.held import MOST_MIB, Held
from extender.recording.log import Recording
from extender.recording.log import open_log as open_recordings
from extender.recording.records import Header, RecordingError, Step
from extender.recording.replaying import doubts, first_start, refusals, start_before
from extender.replay.moments import Span


@dataclass(frozen=True)
class Log:
    """One recording of a log: what is left of it, from the first point on from which it can be replayed."""

    path: Path
    recording: Recording
    #: Which run of the server it is, and of how many in the log.
    run: int = 1
    runs: int = 1

    @property
    def name(self) -> str:
        """The log's name, and which run of it if there are several."""
        return self.path.name if self.runs == 1 else f"{self.path.name}, run {self.run} of {self.runs}"

    @property
    def header(self) -> Header:
        return self.recording.header

    @property
    def epoch(self) -> float | None:
        """The time of day, in seconds since 1970, at 0 of the clock of the steps; None: unknown."""
        return self.header.epoch

    @property
    def begin(self) -> Start:
        """Where a replay of the whole begins. Raises RecordingError."""
        return first_start(self.recording)

    def start_before(self, at: float, number: int | None) -> Start:
        """Return the latest start not after a time, and not after the event of this number. Raises RecordingError."""
        begins = self.begins_at
        if number is None and at < begins:
            return self.begin
        return start_before(self.recording, at=max(at, begins), number=number)

    @property
    def doubts(self) -> list[str]:
        """Why this program may decide otherwise than the one that recorded: a sentence each."""
        return doubts(self.recording)

    def steps(self, after: Start | None = None) -> Iterator[Step]:
        """Read the steps from this start on; by default all that can be replayed. A step without a number gets it.

        Raises RecordingError, naming the line, also if some are missing, and OSError.
        """
        number = (after or self.begin).number
        held = Held(str(self.path), self.recording.most_mib)
        for item in self.recording.steps(number):
            if not isinstance(item, Step):
                raise RecordingError(
                    f"{self.path}: events {item.first} to {item.last} are missing: {item.why}; a replay can begin "
                    "after them: `waggle record cut` makes a log of that part"
                )
            number += 1
            yield held.take(item if item.number else item._replace(number=number))

    @property
    def span(self) -> Span:
        """What moments count from: see `span_of`."""
        return span_of(self.recording)

    @property
    def begins_at(self) -> float:
        """The time of the first step that can be replayed, or of the checkpoint that no step follows. Raises
        RecordingError."""
        head = self.begin.head
        with closing(self.steps()) as steps:  # type: ignore[type-var]
            found = next(steps, None)
        if found is not None:
            return found.at
        if head is None:
            raise RecordingError(f"{self.path}: the log has no event")
        return head.at

    def first(self) -> Step:
        """Return the first step that can be replayed. Raises RecordingError if there is none."""
        with closing(self.steps()) as steps:  # type: ignore[type-var]
            found = next(steps, None)
        if found is None:
            raise RecordingError(f"{self.path}: the log has no event")
        return found


def span_of(recording: Recording) -> Span:
    """Return what all commands count moments from: the first event that is in the log, be it from before its first
    checkpoint; without any event, that checkpoint. Raises RecordingError if there is none, either."""
    with closing(recording.steps()) as steps:  # type: ignore[type-var]
        first = next((step.at for step in steps if isinstance(step, Step)), None)
    if first is None and recording.starts and (head := recording.starts[0].head) is not None:
        first = head.at
    if first is None:
        raise RecordingError(f"{recording.name}: the log has no event")
    return Span(first, recording.header.epoch)


def open_log(
    path: Path,
    *,
    run: int | None = None,
    anyway: bool = False,
    wall: float | None = None,
    most_mib: int = MOST_MIB,
) -> Log:
    """Read the heads of a log. Raises RecordingError and OSError.

    Of several recordings, one for each run of a server, it is the one of the number `run`, the oldest being 1. Without
    it, it is the latest; with `wall`, seconds since 1970, the latest that began before.

    `most_mib`: what a replay may hold. One without answers (format 1) is refused if this program may decide
    differently, unless `anyway`: nothing would show it.
    """
    opened = open_recordings(path).hold(most_mib)
    runs = len(opened.recordings)
    logs = [Log(path, recording, number, runs) for number, recording in enumerate(opened.recordings, start=1)]
    if run is not None:
        opened.run(run)
        chosen = logs[run - 1]
    else:
        chosen = next((log for log in reversed(logs) if wall is None or _begins_before(log, wall)), logs[0])
    if refused := refusals(chosen.recording):
        raise RecordingError(f"{path}: cannot be replayed: {'; '.join(refused)}")
    if not anyway and chosen.header.waggle == 1 and (differs := chosen.doubts):
        raise RecordingError(
            f"{path}: this program may decide differently, and a log of format 1 has no answers to compare with: "
            f"{'; '.join(differs)}; --anyway replays it with the constants of this program"
        )
    return chosen


def _begins_before(log: Log, wall: float) -> bool:
    return log.epoch is not None and log.epoch + log.begins_at <= wall
