"""A recording one event at a time, forth and back.

    forth   the next event, the next decision, the next event that concerns one pod
    back    to the decision before: an engine cannot forget, so another one replays the log up to there, from its
            start or from a checkpoint

A *decision* is an answer to filter or preempt about a managed pod, an eviction, a refused bind, or other settings.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from algorithm.model import PodKey
from extender.recording.checkpoint import Start
from extender.recording.records import Step
from extender.replay.frozen import Stage
from extender.replay.logs import Log
from extender.replay.moments import clock_text
from extender.replay.texts import cut, decisions, effect_text, event_text
from extender.scheduling.events import Event

#: Decisions and effects of one event that are shown.
_LINES = 12


class Seen(NamedTuple):
    """One event, as it was just handled: its texts, what was decided, and the pod that it names, if it names one."""

    number: int
    when: str
    event: str
    decided: Sequence[str]
    effects: Sequence[str]
    pod: PodKey | None

    @property
    def text(self) -> str:
        """The event on a line, and each decision and effect on one below it."""
        lines = [*(f"    -> {text}" for text in self.decided), *(f"       {text}" for text in self.effects)]
        more = [f"       and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
        return "\n".join([f"{self.when}  #{self.number}  {self.event}", *lines[:_LINES], *more])


class Stepper:
    """Where we are in a log: right after event `number`. `stage` has the engine as it is there.

    It begins at `at`, the number of an event; 0: before the first one. Raises RecordingError.
    """

    def __init__(self, log: Log, at: int = 0) -> None:
        self._log = log
        self._span = log.span
        #: The numbers of all decisions between `_known` and where we have been.
        self._decisions: list[int] = []
        self._known = self._start_before(at)
        self._begin(self._known)
        self._pass_to(at)

    def _start_before(self, number: int) -> Start:
        begin = self._log.begin
        return begin if number <= begin.number else self._log.start_before(math.inf, number)

    def _begin(self, start: Start) -> None:
        self.stage = Stage(self._log, self._span, start)
        self._steps: Iterator[Step] = self._log.steps(start)

    @property
    def number(self) -> int:
        """The number of the last event; 0 at the beginning."""
        return self.stage.machine.sequence

    def next(self) -> Seen | None:
        """Handle the next event; None at the end of the log. Raises RecordingError."""
        step = next(self._steps, None)
        if step is None:
            return None
        stage = self.stage
        event = event_text(step.event, stage.machine)
        instructions = stage.handle(step)
        number, decided = self.number, decisions(instructions)
        if decided and not self._is_known(number):
            insort(self._decisions, number)
        effects = [cut(text) for each in instructions if (text := effect_text(each))]
        when = clock_text(step.at, self._span)
        return Seen(number, when, cut(event), decided, effects, _named(step.event))

    def next_decision(self) -> Seen | None:
        """Go on to the next decision; None if there is none any more."""
        return next((seen for seen in self._all() if seen.decided), None)

    def next_of(self, pod: PodKey) -> Seen | None:
        """Go on to the next event that concerns this pod; None if there is none any more, and we stay where we are."""
        here = self.number
        seen = next((seen for seen in self._all() if seen.pod == pod or self._has_line(pod)), None)
        if seen is None:
            self._begin(self._start_before(here))
            self._pass_to(here)
        return seen

    def back(self) -> Seen | None:
        """Go back to the decision before this event; None: to the beginning, since there is none."""
        here = self.number
        while (earlier := bisect_left(self._decisions, here)) == 0 and self._known.number > self._log.begin.number:
            until = self._known.number
            self._known = self._start_before(until - 1)
            self._begin(self._known)
            self._pass_to(until)
        target = self._decisions[earlier - 1] if earlier else 0
        self._begin(self._start_before(target - 1))
        self._pass_to(target - 1)
        return self.next() if target else None

    def _is_known(self, number: int) -> bool:
        at = bisect_left(self._decisions, number)
        return at < len(self._decisions) and self._decisions[at] == number

    def _pass_to(self, number: int) -> None:
        """Handle events up to this one."""
        while self.number < number and self.next() is not None:
            pass

    def _all(self) -> Iterator[Seen]:
        while (seen := self.next()) is not None:
            yield seen

    def _has_line(self, pod: PodKey) -> bool:
        """Whether the last event stands in the history of this pod."""
        found = self.stage.machine.state.pods.named(pod)
        return found is not None and bool(found.history) and found.history[-1].event == self.number


def _named(event: Event) -> PodKey | None:
    if (pod := getattr(event, "pod", None)) is not None:
        return PodKey(pod.namespace, pod.name)
    key = getattr(event, "key", None)
    return key if isinstance(key, PodKey) else None
