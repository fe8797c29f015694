"""`waggle replay LOG`: replays recordings, and says that every decision is the same or shows the first that differs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from extender.logs.printable import printable
from extender.operate.plugin_prints import prints_on_stderr
from extender.operate.quiet_collector import quiet_collector
from extender.operate.replay_jobs import replay_parts, starts_of_parts
from extender.operate.replay_part import PartResult, replay_part
from extender.recording.log import Log, Recording
from extender.recording.records import RecordingError
from extender.recording.replaying import doubts, refusals
from extender.replay.moments import duration_text

#: Exit status of `waggle replay`: all decisions are the same; a decision differs; there is no event to replay.
SAME, DIFFERS, NOTHING = 0, 1, 2
#: Characters of what a log says about itself.
_LONGEST = 4000

Say = Callable[[str], None]


def check(log: Log, say: Say, *, run: int | None = None, anyway: bool = False, jobs: int = 1) -> int:
    """Replay all recordings of a log, or that of one run of the server; returns the exit status.

    `jobs`: the processes that replay the parts of a long one.

    `anyway`: also a recording without answers (format 1) by a program with other constants.

    Raises RecordingError, AlgorithmError or OSError.
    """
    quiet_collector()
    runs, counts = len(log.recordings), Counts()
    for number, recording in enumerate(log.recordings if run is None else [log.run(run)], start=run or 1):
        which = recording.name if runs == 1 else f"run {number} of {runs}, {recording.name}"
        checked = _Check(recording, which, say)
        counts.add(checked.run(jobs, anyway=anyway))
    if runs > 1 and run is None:
        say(f"all {runs} runs: {counts.text()}")
    return counts.status


@dataclass
class Counts:
    """What was replayed, of one run or of several. `passed`: seconds that the runs took when recorded; `took`: seconds
    of their replay, of CPU time if there was one process; `missing`: events not in the log, or not replayed; `differs`:
    runs that diverge."""

    events: int = 0
    decisions: int = 0
    compared: int = 0
    missing: int = 0
    passed: float = 0.0
    took: float = 0.0
    differs: int = 0
    #: The most that replayed one run.
    processes: int = 1

    @property
    def status(self) -> int:
        if self.differs:
            return DIFFERS
        return SAME if self.events else NOTHING

    def add(self, other: Counts) -> None:
        most = max(self.processes, other.processes)
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        self.processes = most

    def add_part(self, part: PartResult) -> None:
        self.events += part.events
        self.decisions += part.decisions
        self.compared += part.compared

    def text(self) -> str:
        """Return what was replayed, whether it was the same, and how fast, in one line."""
        text = f"{_counted(self.events, 'event')}, {_counted(self.decisions, 'decision')}, "
        if not self.events:
            text += "nothing to replay"
        elif self.differs:
            text += "replayed up to a divergence " + ("in one of them" if self.differs == 1 else f"in {self.differs}")
        elif not self.compared:
            text += "none compared: a log of format 1 has no answers"
        elif self.compared < self.events:
            text += f"the same where they were recorded ({self.compared:,} events)"
        else:
            text += "all the same"
        text += f"; {self.missing:,} more are not in the log, or not replayed" if self.missing else ""
        faster = f": {self.passed / self.took:,.0f} times as fast" if self.took > 0 else ""
        by = "of CPU time" if self.processes == 1 else f"by up to {self.processes} processes"
        return f"{text}. {duration_text(round(self.passed, 3))} replayed in {self.took:.2f} s {by}{faster}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class _Check:
    """The replay of one recording."""

    def __init__(self, recording: Recording, name: str, say: Say) -> None:
        self._recording, self._name, self._say = recording, name, say
        self._counts = Counts()

    def run(self, jobs: int, *, anyway: bool) -> Counts:
        recording, header = self._recording, self._recording.header
        if refused := refusals(recording):
            raise RecordingError(f"{recording.name}: cannot be replayed: {'; '.join(refused)}")
        with prints_on_stderr():
            doubted = doubts(recording)
            if doubted and header.waggle == 1 and not anyway:
                raise RecordingError(
                    f"{recording.name}: this program may decide differently, and a log of format 1 has no answers to "
                    f"compare with: {'; '.join(doubted)}; --anyway replays it with the constants of this program"
                )
            counts, parts = self._counts, self._parts(jobs)
        for part in parts:
            counts.add_part(part)
        counts.passed = max((part.last_at for part in parts if part.events), default=0.0) - parts[0].first_at
        for remark in parts[-1].remarks:
            self._say(printable(remark))
        self._tell_of_first(parts[0].began_after)
        for gap in (gap for part in parts for gap in part.gaps):
            counts.missing += gap.last - gap.first + 1
            self._tell(f"events {gap.first} to {gap.last} are not replayed: {gap.why}")
        if doubted:
            self._tell(f"constants of this program differ from the recorded ones: {'; '.join(doubted)}")
        if header.masked:
            self._tell(f"masked in this log, and therefore in its replay: {', '.join(header.masked)}")
        if divergence := parts[-1].divergence:
            counts.differs = 1
            same = f"after {counts.events - 1:,} events with the same answers, the first divergence:"
            self._say("\n".join([f"{self._name}: {same}", *divergence]))
        else:
            self._say(f"{self._name}: {counts.text()}")
        return counts

    def _parts(self, jobs: int) -> list[PartResult]:
        """Replay it, in several processes if it is long. Sets how long that took."""
        recording, counts = self._recording, self._counts
        starts = starts_of_parts(recording, jobs)
        if len(starts) == 1:
            part = replay_part(recording, starts[0])
            counts.took = part.took
            return [part]
        began = time.monotonic()
        parts = list(replay_parts(recording, starts))
        if parts[-1].divergence and len(parts) > 1:  # an algorithm may copy itself wrongly: then its checkpoints differ
            parts = [replay_part(recording, starts[0])]
        counts.took, counts.processes = time.monotonic() - began, len(starts)
        return parts

    def _tell_of_first(self, start: int) -> None:
        """Say which events are in the log, but from before the first point where a replay can begin."""
        first = self._recording.header.first
        if start >= first > 0:
            self._counts.missing += start - first + 1
            which = f"event {first} is" if start == first else f"events {first} to {start} are"
            self._tell(f"{which} not replayed: the first checkpoint was taken after event {start}")

    def _tell(self, text: str) -> None:
        """Say something that has texts of the log in it: it has one line, and not more than so many characters."""
        self._say(printable(text, _LONGEST))
