"""Carries out best-effort commands (*hints*): writes that may be lost, and whose outcome is not reported.

    submit --> lane of the first kind (by topic) ---+--> 1 worker --> throttled: back to its lane
          \\-> lane of the second kind (by topic) --+                 anything else: done or failed, and counted

Commands of one topic are merged while they wait. The lanes are in the order of their kinds in the `CommandSet`, and an
earlier lane goes first. When the lanes are full, further commands are dropped and counted.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec
import structlog

from extender.core.commands import BestEffortKind, Moment
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.requests import Request
from extender.kube.client.api import ApiError, Exchange, Response
from extender.kube.writes.fenced import FencedApi
from extender.kube.writes.outcome import outcome_of, outcome_of_error

log = structlog.get_logger(__name__)

_MOST = 1000


@dataclass(slots=True)
class HintStats:
    """Counters since the start."""

    done: int = 0
    failed: int = 0
    #: Not queued because the lanes were full.
    dropped: int = 0
    #: Merged into an equal hint that was queued already.
    merged: int = 0
    #: Bugs in the worker that the thread survived.
    crashes: int = 0
    #: What the kinds count by themselves, by name.
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Waiting:
    hint: Any
    given: float
    #: The number of commands that it stands for; 0 if it was throttled after the kind had counted it.
    times: int = 1


@dataclass(slots=True)
class _Lane:
    """The commands of one kind that wait, by topic, in the order of arrival."""

    kind: BestEffortKind[Any]
    waiting: dict[Hashable, _Waiting] = field(default_factory=dict)


class BestEffortWriter:
    """Writes hints. Its thread runs from construction until `stop`.

    `wait_calm` and `pause` are those of the write queue.
    """

    def __init__(
        self,
        api: FencedApi,
        kinds: Sequence[BestEffortKind[Any]],
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
        self._lanes = {kind.command: _Lane(kind) for kind in kinds}
        self._changed = threading.Condition()
        self._stopping = False
        self._exchange: Exchange | None = None
        self._sender = f"waggle-{socket.gethostname()}"[:128]
        self._stats = HintStats()
        self.thread = threading.Thread(target=self._work, name="commit-hints", daemon=True)
        self.thread.start()

    @property
    def stats(self) -> HintStats:
        """A copy of the counters."""
        counts: Counter[str] = Counter()
        for lane in self._lanes.values():
            counts.update(lane.kind.counts)
        return replace(self._stats, counts=counts)

    def submit(self, hint: object) -> None:
        """Queue a command. Never blocks. Raises TypeError if no kind is registered for it."""
        lane = self._lanes.get(type(hint))
        if lane is None:
            raise TypeError(f"{type(hint).__name__}: expected a command of a registered kind")
        topic = lane.kind.topic(hint)
        with self._changed:
            waiting = lane.waiting.get(topic)
            if waiting is not None:
                waiting.hint = hint
                waiting.times += 1
                self._stats.merged += 1
            elif self.depth < _MOST:
                lane.waiting[topic] = _Waiting(hint, self._clock())
                self._changed.notify()
            else:
                self._stats.dropped += 1

    @property
    def depth(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes.values())

    @property
    def oldest(self) -> float:
        """Seconds that the oldest command in any lane has waited."""
        with self._changed:
            lanes = [lane.waiting for lane in self._lanes.values() if lane.waiting]
            firsts = [next(iter(waiting.values())).given for waiting in lanes]
            return max(0.0, self._clock() - min(firsts)) if firsts else 0.0

    @property
    def in_flight(self) -> int:
        return int(self._exchange is not None)

    def stop(self) -> None:
        """Drop the queued hints and interrupt the request in flight. The thread ends soon."""
        with self._changed:
            self._stopping = True
            for lane in self._lanes.values():
                lane.waiting.clear()
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
                self._stats.crashes += 1
                log.exception("hint failed", error=repr(error))

    def _wait(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self.depth or self._stopping)
            return not self._stopping

    def _take(self) -> _Waiting | None:
        with self._changed:
            for lane in self._lanes.values():
                if lane.waiting:
                    return lane.waiting.pop(next(iter(lane.waiting)))
            return None

    def _give(self, waiting: _Waiting) -> None:
        outcome = self._carry_out(waiting)
        if outcome is None:
            return
        if outcome.kind is OutcomeKind.THROTTLED:
            self._pause(outcome.retry_after)
            self._put_back(waiting)
        else:
            self._stats.done += outcome.kind is OutcomeKind.DONE
            self._stats.failed += outcome.kind is not OutcomeKind.DONE

    def _put_back(self, waiting: _Waiting) -> None:
        """Put a throttled command at the end of its lane, unless an equal one was queued meanwhile.

        What its kind has counted stays counted.
        """
        lane = self._lanes[type(waiting.hint)]
        waiting.times = 0
        with self._changed:
            if not self._stopping:
                lane.waiting.setdefault(lane.kind.topic(waiting.hint), waiting)

    def _carry_out(self, waiting: _Waiting) -> Outcome | None:
        """Send the requests of a command. Returns how the last one ended; None if nothing is to be sent."""
        kind = self._lanes[type(waiting.hint)].kind
        requests = kind.requests(waiting.hint, waiting.times, self._moment())
        outcome: Outcome | None = None
        with suppress(StopIteration):
            request = next(requests)
            while True:
                outcome = self._request(request, waiting.hint.term)
                request = requests.send(outcome.kind)
                if outcome.kind is OutcomeKind.THROTTLED:
                    break
        return outcome

    def _moment(self) -> Moment:
        at = self._wall_clock()
        return Moment(self._clock(), at.timestamp(), at.isoformat(), self._sender)

    def _request(self, request: Request, term: int) -> Outcome:
        """Send the request, and return how it ended. THROTTLED: it may be tried again."""
        if not self._api.permits(term):
            return Outcome(OutcomeKind.REJECTED)
        try:
            response = self._answer(self._api.exchange(request, term))
        except ApiError as error:
            outcome = outcome_of_error(error)
        else:
            outcome = outcome_of(response)
        if outcome.kind is OutcomeKind.THROTTLED:
            if self._api.permits(term):
                return outcome
            outcome = msgspec.structs.replace(outcome, kind=OutcomeKind.REJECTED)
        if outcome.kind not in (OutcomeKind.DONE, OutcomeKind.GONE):
            log.info("hint not written", method=request.method, path=request.path, error=outcome.detail)
        return outcome

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
