"""One moment of a recording: all events up to it are replayed, and then the clock stands still.

    log --> fresh engine --> events up to the moment --> Runtime with a frozen clock --> views, pages, explanations

The engine is the real one, in a real `Runtime`, so pages and texts are those of a live server. Nothing is carried out,
no timer runs, and nothing may change the engine afterwards: that is the caller's promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from extender.core.said import LONGEST_FAILURE, said_by
from extender.recording.checkpoint import Start
from extender.recording.records import RecordingError, Step
from extender.recording.replaying import replay_on
from extender.replay.gated import Gated
from extender.replay.logs import Log
from extender.replay.moments import Moment, MomentError, Span, beyond, clock_text, duration_text, limit_of
from extender.scheduling.events import Instruction
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.runtime import Runtime
from extender.server.usage import EVERY, HOUR


class Frozen(NamedTuple):
    """The engine at one moment. `at` is that moment in seconds of the log's clock, `number` that of the last event."""

    log: Log
    runtime: Runtime
    machine: SchedulerStateMachine
    span: Span
    at: float
    number: int
    gated: Gated

    @property
    def text(self) -> str:
        """What this is, in a few words: for a banner, and for the head of a text."""
        after = f"+{duration_text(self.at - self.span.first)}"
        when = clock_text(self.at, self.span)
        return f"{self.log.name} at {when if when == after else f'{when} ({after})'}, after event {self.number}"


def freeze(log: Log, moment: Moment, *, usage: bool = False) -> Frozen:
    """Replay `log` up to `moment`. With `usage` the last hour before it is sampled, as a live server does for its page.

    Raises MomentError if the log does not have the moment, RecordingError, AlgorithmError and OSError.
    """
    span, begin = log.span, log.begin
    limit, number = limit_of(moment, span)
    if number is None and begin.head is not None and limit < begin.head.at:
        raise MomentError(
            f"{moment.text} is before the first moment that can be replayed, "
            f"{clock_text(begin.head.at, span)}, right after event {begin.number}"
        )
    if usage and math.isinf(limit):
        limit, number = _time_of(log, moment, span, number)
    start = log.start_before(limit - HOUR if usage else limit, number)
    stage = Stage(log, span, start)
    sampler = _Sampler(stage, limit - HOUR if usage else math.inf)
    steps = _Until(log.steps(start), limit, number)
    for step in steps:
        sampler.pass_to(step.at)
        stage.handle(step)
    is_start = start.number == number or (start.head is not None and start.head.at == limit)
    if not steps.is_complete and not is_start:
        last = start.head.at if steps.last is None and start.head is not None else stage.now
        raise beyond(moment, span, last, stage.machine.sequence)
    stage.now = limit if math.isfinite(limit) else stage.now
    if usage:
        sampler.pass_to(stage.now)
        stage.now = limit
        stage.runtime.model.usage.add(stage.runtime.model.usage_sample())
    stage.know_epoch()
    return Frozen(log, stage.runtime, stage.machine, span, stage.now, stage.machine.sequence, stage.gated)


class Stage:
    """An engine in a `Runtime` whose clock shows what the log says. `now` is that time."""

    def __init__(self, log: Log, span: Span, start: Start | None = None) -> None:
        begin = start or log.begin
        self.now = span.first if begin.head is None else begin.head.at
        self.machine = begin.engine()
        self.gated = Gated(log, self.machine)
        self._epoch = span.epoch
        self.runtime = Runtime(self.machine, _not_carried_out, clock=lambda: self.now, algorithm=log.header.algorithm)
        self.runtime.model.wall = lambda: (self._epoch or 0.0) + self.now

    def handle(self, step: Step) -> list[Instruction]:
        """Handle one step; returns what it causes. Raises RecordingError if the engine fails."""
        self.now = step.at
        try:
            [(_, instructions)] = replay_on(self.machine, iter((step,)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may call sys.exit()
            text = said_by(error, LONGEST_FAILURE)
            too = ", as it did then" if step.said is not None and step.said.failed == text else ""
            raise RecordingError(f"at event {step.number} the engine fails{too}: {text}") from error
        return instructions

    def know_epoch(self) -> None:
        """If the log does not say which time of day it was, go by the creation of pods."""
        if self._epoch is None:
            self._epoch = _epoch_by_pods(self.machine)


class _Until:
    """Steps up to a limit in time, or to the event of a number. `is_complete`: the log goes on, or ends just there."""

    def __init__(self, steps: Iterator[Step], limit: float, number: int | None) -> None:
        self._steps, self._limit, self._number = steps, limit, number
        self.last: Step | None = None
        self.is_complete = math.isinf(limit) and number is None

    def __iter__(self) -> Iterator[Step]:
        for step in self._steps:
            if step.at > self._limit or (self._number is not None and step.number > self._number):
                self.is_complete = True
                return
            self.last = step
            yield step
            if step.number == self._number:
                self.is_complete = True
                return
        self.is_complete |= self.last is not None and self.last.at == self._limit


class _Sampler:
    """Samples use and waiting from a time on, seconds of the log's clock, as often as a live server does."""

    def __init__(self, stage: Stage, begin: float) -> None:
        self._stage, self._next = stage, max(begin, stage.now)

    def pass_to(self, time: float) -> None:
        """Take the samples before this time: nothing happens until then."""
        stage = self._stage
        while self._next < time:
            if stage.machine.synced:
                stage.now = self._next
                stage.runtime.model.usage.add(stage.runtime.model.usage_sample())
            self._next += EVERY


def _time_of(log: Log, moment: Moment, span: Span, number: int | None) -> tuple[float, int | None]:
    """Return when an event happened, or the last one, and its number: only then is the hour before it known."""
    start = log.start_before(math.inf, number)
    at, last = (span.first, 0) if start.head is None else (start.head.at, start.number)
    steps = _Until(log.steps(start), math.inf, number)
    for step in steps:
        at, last = step.at, step.number
    if not steps.is_complete and last != number:
        raise beyond(moment, span, at, last)
    return at, last


def _epoch_by_pods(machine: SchedulerStateMachine) -> float:
    """Return seconds since 1970 at 0 of the log's clock, as the creation of pods shows it; 0.0 if none does.

    No pod is seen before it is created, and most are seen at once.
    """
    found = 0.0
    for pod_info in machine.pod_infos():
        with suppress(ValueError):
            created = datetime.fromisoformat(pod_info.pod.created).timestamp()
            found = max(found, created - pod_info.history[0].at) if pod_info.history else found
    return found


def _not_carried_out(_instruction: Instruction) -> None:
    """What the engine wanted to be written was written, or failed, long ago: the log has the report."""
