"""`waggle replay LOG`: replays recordings, and says that every decision is the same or shows the first that differs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from extender.logs.printable import printable
from extender.recording.encoding import instructions_of
from extender.recording.log import Log, Recording
from extender.recording.records import RecordingError
from extender.recording.replaying import Played, Replay, doubts, refusals
from extender.replay.moments import Span, clock_text, duration_text
from extender.replay.texts import cut, decision_text, effect_text, event_text
from extender.scheduling.machine import SchedulerStateMachine

#: Exit status of `waggle replay`: all decisions are the same; a decision differs.
SAME, DIFFERS = 0, 1
#: New objects after which the collector of garbage looks at them.
_COLLECT_AFTER = 50_000
#: Lines of a pod's history, and instructions of an event, that are shown.
_HISTORY, _MOST = 20, 12
#: Characters of what a log says about itself.
_LONGEST = 4000

Say = Callable[[str], None]


def check(log: Log, say: Say, *, run: int | None = None, anyway: bool = False) -> int:
    """Replay all recordings of a log, or that of one run of the server; returns the exit status.

    `anyway`: also a recording without answers (format 1) by a program with other constants.

    Raises RecordingError, AlgorithmError or OSError.
    """
    quiet_collector()
    runs, counts = len(log.recordings), Counts()
    for number, recording in enumerate(log.recordings if run is None else [log.run(run)], start=run or 1):
        which = recording.name if runs == 1 else f"run {number} of {runs}, {recording.name}"
        checked = _Check(recording, which, say)
        counts.add(checked.run(anyway=anyway))
    if runs > 1 and run is None:
        say(f"all {runs} runs: {counts.text()}")
    return counts.status


def quiet_collector() -> None:
    """Let the collector of garbage look seldom: nothing of a replay is garbage for long, and looking for it takes a
    fifth of the time."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


@dataclass
class Counts:
    """What was replayed, of one run or of several. `passed`: seconds that the runs took when recorded; `took`: seconds
    of CPU time of their replay; `missing`: events not in the log, or not replayed; `differs`: runs that diverge."""

    events: int = 0
    decisions: int = 0
    compared: int = 0
    missing: int = 0
    passed: float = 0.0
    took: float = 0.0
    differs: int = 0

    @property
    def status(self) -> int:
        return DIFFERS if self.differs else SAME

    def add(self, other: Counts) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def text(self) -> str:
        """Return what was replayed, whether it was the same, and how fast, in one line."""
        text = f"{self.events:,} events, {self.decisions:,} decisions, "
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
        return f"{text}. {duration_text(round(self.passed, 3))} replayed in {self.took:.2f} s of CPU time{faster}"


class _Check:
    """The replay of one recording."""

    def __init__(self, recording: Recording, name: str, say: Say) -> None:
        self._recording, self._name, self._say = recording, name, say
        self._span = Span(0.0, recording.header.epoch)
        self._counts = Counts()
        self._first = 0.0

    def run(self, *, anyway: bool) -> Counts:
        recording, header = self._recording, self._recording.header
        if refused := refusals(recording):
            raise RecordingError(f"{recording.name}: cannot be replayed: {'; '.join(refused)}")
        doubted = doubts(recording)
        if doubted and header.waggle == 1 and not anyway:
            raise RecordingError(
                f"{recording.name}: this program may decide differently, and a log of format 1 has no answers to "
                f"compare with: {'; '.join(doubted)}; --anyway replays it with the constants of this program"
            )
        replay = Replay(recording)
        began = time.process_time()
        shown = self._replay(replay)
        counts = self._counts
        counts.took = time.process_time() - began
        for remark in recording.remarks:
            self._say(printable(remark))
        self._tell_of_first(replay.began_after)
        for gap in replay.gaps:
            counts.missing += gap.last - gap.first + 1
            self._tell(f"events {gap.first} to {gap.last} are not replayed: {gap.why}")
        if doubted:
            self._tell(f"constants of this program differ from the recorded ones: {'; '.join(doubted)}")
        if header.masked:
            self._tell(f"masked in this log, and therefore in its replay: {', '.join(header.masked)}")
        if shown is not None:
            counts.differs = 1
            self._say(shown)
        else:
            self._say(f"{self._name}: {counts.text()}")
        return counts

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

    def _replay(self, replay: Replay) -> str | None:
        """Replay to the end, or to the first divergence, which is returned as a text."""
        counts = self._counts
        for played in replay:
            step = played.step
            if not counts.events:
                self._first = step.at
                self._span = self._span._replace(first=step.at)
            counts.passed = step.at - self._first
            counts.events += 1
            counts.decisions += played.decisions
            counts.compared += step.said is not None
            if played.divergence is not None:
                return self._divergence(played, replay.engine)
        return None

    def _divergence(self, played: Played, engine: SchedulerStateMachine) -> str:
        step, divergence = played.step, played.divergence
        assert divergence is not None
        lines = [
            f"{self._name}: after {self._counts.events - 1:,} events with the same answers, the first divergence:",
            f"  {clock_text(step.at, self._span)} #{step.number} {event_text(step.event, engine)}",
            *_answer("was", divergence.was, divergence.failed_then),
            *_answer("now", divergence.now, divergence.failed_now),
        ]
        pod = pod_of(step.event)
        if pod is not None and (info := engine.find(*pod)) is not None:
            lines.append(f"  history of {info.key} in this replay:")
            lines += [
                f"    {clock_text(line.at, self._span)} #{line.event} {cut(line.text)}"
                for line in list(info.history)[-_HISTORY:]
            ]
        return "\n".join(lines)


def pod_of(event: Any) -> tuple[str, str] | None:
    """The namespace and name of the pod that an event names; None if it names none."""
    about = getattr(event, "pod", event)
    namespace, name = getattr(about, "namespace", None), getattr(about, "name", None)
    return (namespace, name) if namespace and name else None


def _answer(title: str, text: bytes, failed: str) -> list[str]:
    if failed:
        return [f"  {title}: the engine failed: {cut(failed)}"]
    texts = [cut(decision_text(each) or effect_text(each)) for each in instructions_of(text)]
    shown = [each for each in texts if each][:_MOST] or ["no answer"]
    return [f"  {title}: {shown[0]}", *(f"       {each}" for each in shown[1:])]
