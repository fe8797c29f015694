"""Writes that may be lost: nudges of waiting pods, and Kubernetes Events for people. Their outcome is not reported.

    submit --> nudges (by pod) --+--> 1 worker --> throttled: back to its place
          \\-> Events (by text) -+                 anything else: done or failed, and counted

Duplicates of what is queued are merged: a second nudge of the same pod changes nothing, and a second Event with the
same text counts as one that happened twice. Nudges go first, since a pod waits for them. When the queues are full,
further hints are dropped and counted.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from extender.core.outcomes import OutcomeKind
from extender.kube.client.api import ApiError, Exchange, Request, Response
from extender.kube.writes import requests as writes
from extender.kube.writes.correlator import Correlator, Series
from extender.kube.writes.fenced import FencedApi
from extender.kube.writes.outcome import outcome_of, outcome_of_error
from extender.scheduling.commands import RecordEvent, RequeuePod

log = structlog.get_logger(__name__)

Hint = RequeuePod | RecordEvent

_MOST = 1000


@dataclass(slots=True)
class HintStats:
    """Counters since the start."""

    done: int = 0
    failed: int = 0
    #: Not queued because the queues were full.
    dropped: int = 0
    #: Merged into an equal hint that was queued already.
    merged: int = 0
    #: Of those done: new Events, and Events whose count was raised.
    events_created: int = 0
    events_counted: int = 0
    #: Occurrences for which no Event was written, since their pod has had too many.
    events_suppressed: int = 0
    #: Bugs in the worker that the thread survived.
    crashes: int = 0


@dataclass(slots=True)
class _Waiting:
    hint: Hint
    given: float
    times: int = 1


class _Throttled(Exception):  # noqa: N818  a finding, not a fault of ours
    """Nothing was done; it may be tried again after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class BestEffortWriter:
    """Writes hints. Its thread runs from construction until `stop`.

    `wait_calm` and `pause` are those of the write queue.
    """

    def __init__(
        self,
        api: FencedApi,
        *,
        wait_calm: Callable[[], bool],
        pause: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._wait_calm = wait_calm
        self._pause = pause
        self._clock = clock
        self._wall_clock = wall_clock
        self._nudges: dict[tuple[str, ...], _Waiting] = {}
        self._events: dict[tuple[str, ...], _Waiting] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._exchange: Exchange | None = None
        self._correlator = Correlator()
        self._serial = itertools.count()
        self._instance = f"{writes.COMPONENT}-{socket.gethostname()}"[:128]
        self.stats = HintStats()
        self.thread = threading.Thread(target=self._work, name="commit-hints", daemon=True)
        self.thread.start()

    def submit(self, hint: Hint) -> None:
        """Queue a hint. Never blocks."""
        lane = self._nudges if isinstance(hint, RequeuePod) else self._events
        with self._changed:
            waiting = lane.get(_topic(hint))
            if waiting is not None:
                waiting.hint = hint
                waiting.times += 1
                self.stats.merged += 1
            elif self.depth < _MOST:
                lane[_topic(hint)] = _Waiting(hint, self._clock())
                self._changed.notify()
            else:
                self.stats.dropped += 1

    @property
    def depth(self) -> int:
        return len(self._nudges) + len(self._events)

    @property
    def oldest(self) -> float:
        """Seconds that the oldest hint in either queue has waited."""
        with self._changed:
            firsts = [next(iter(lane.values())).given for lane in (self._nudges, self._events) if lane]
            return max(0.0, self._clock() - min(firsts)) if firsts else 0.0

    @property
    def in_flight(self) -> int:
        return int(self._exchange is not None)

    def stop(self) -> None:
        """Drop the queued hints and interrupt the request in flight. The thread ends soon."""
        with self._changed:
            self._stopping = True
            self._nudges.clear()
            self._events.clear()
            if self._exchange is not None:
                self._exchange.interrupt()
            self._changed.notify()

    # -- the worker -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._wait() and self._wait_calm():
            if (waiting := self._take()) is None:
                continue
            try:
                self._give(waiting)
            except Exception as error:
                self.stats.crashes += 1
                log.exception("hint failed", error=repr(error))

    def _wait(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self.depth or self._stopping)
            return not self._stopping

    def _take(self) -> _Waiting | None:
        with self._changed:
            lane = self._nudges or self._events
            return lane.pop(next(iter(lane))) if lane else None

    def _give(self, waiting: _Waiting) -> None:
        hint = waiting.hint
        try:
            kind = self._nudge(hint) if isinstance(hint, RequeuePod) else self._tell(hint, waiting.times)
        except _Throttled as throttled:
            self._pause(throttled.seconds)
            self._put_back(waiting)
            return
        self.stats.done += kind is OutcomeKind.DONE
        self.stats.failed += kind not in (OutcomeKind.DONE, None)

    def _put_back(self, waiting: _Waiting) -> None:
        """Put a throttled hint at the end of its queue, unless an equal one was queued meanwhile.

        What the correlator has counted of an Event stays counted.
        """
        lane = self._nudges if isinstance(waiting.hint, RequeuePod) else self._events
        if isinstance(waiting.hint, RecordEvent):
            self._correlator.give_back(waiting.hint)
            waiting.times = 0
        with self._changed:
            if not self._stopping:
                lane.setdefault(_topic(waiting.hint), waiting)

    def _nudge(self, hint: RequeuePod) -> OutcomeKind:
        value = f"{self._wall_clock().isoformat()}-{next(self._serial)}"
        return self._request(writes.nudge(hint, value=value), hint)

    # -- Events ---------------------------------------------------------------------------------------------------

    def _tell(self, event: RecordEvent, times: int) -> OutcomeKind | None:
        """Write an Event. Returns None if nothing is written because the pod has had too many."""
        series = self._correlator.observe(event, times, now=self._clock(), at=self._wall_clock())
        self.stats.events_suppressed = self._correlator.suppressed
        if series is None:
            return None
        return self._count(series) if series.written else self._create(series)

    def _create(self, series: Series) -> OutcomeKind:
        """Create the Event. If it exists already, an earlier attempt of our own succeeded without a response."""
        kind = self._request(writes.new_event(series, instance=self._instance), series.event)
        if kind is OutcomeKind.LOST:
            kind = self._request(writes.count_event(series), series.event)
        series.written = kind is OutcomeKind.DONE
        self.stats.events_created += series.written
        return kind

    def _count(self, series: Series) -> OutcomeKind:
        """Raise the count of an Event. Events live for an hour; an expired one is created anew with the count so
        far."""
        kind = self._request(writes.count_event(series), series.event)
        if kind is OutcomeKind.GONE:
            return self._create(series)
        self.stats.events_counted += kind is OutcomeKind.DONE
        return kind

    def _request(self, request: Request, hint: Hint) -> OutcomeKind:
        """Send the request, and return how it ended. Raises _Throttled."""
        if not self._api.permits(hint):
            return OutcomeKind.REJECTED
        try:
            response = self._answer(self._api.exchange(request, hint))
        except ApiError as error:
            outcome = outcome_of_error(error)
        else:
            outcome = outcome_of(response)
        if outcome.kind is OutcomeKind.THROTTLED and self._api.permits(hint):
            raise _Throttled(outcome.retry_after)
        if outcome.kind not in (OutcomeKind.DONE, OutcomeKind.GONE):
            log.info("hint not written", method=request.method, path=request.path, error=outcome.detail)
        return outcome.kind

    def _answer(self, exchange: Exchange) -> Response:
        with self._changed:
            self._exchange = exchange
            if self._stopping:
                exchange.interrupt()
        try:
            with exchange:
                return exchange.response()
        finally:
            with self._changed:
                self._exchange = None


def _topic(hint: Hint) -> tuple[str, ...]:
    of = (hint.uid, hint.namespace, hint.name)
    return of if isinstance(hint, RequeuePod) else (*of, str(hint.reason.code), hint.reason.text)
