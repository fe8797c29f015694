"""Carries out the commands of an engine at the API server, and reports how each ended.

    submit --> urgent (reported commands) --> queue --> pilot ------------> report(event), exactly once each
          |                                              \\-> workers --/
          \\-> hints (best-effort commands; bounded) --> 1 worker --> nothing

A `CommandSet` says which commands there are, what each one sends, and how it is reported (`extender.core.commands`).
Nothing here knows any of them.

One thread or event loop, the pilot's (pilot.py), makes all requests for which a connection is open already
(multiplexer.py). If a connection has to be opened first, or credentials have to be fetched, a worker thread makes the
request, because a worker may block.

Promises:

* `submit` never blocks and never calls `report`;
* every accepted command that is reported at all is reported exactly once, whatever fails: after a response, a
  time-out, a bug in this module, or `stop` (a request that was never sent is THROTTLED, one that may have been sent is
  UNKNOWN);
* a hint never delays a write: hints have their own worker, and are dropped and counted when there are too many;
* nothing is written for a term that has expired or is about to expire: the write is THROTTLED, and a request that hangs
  at that moment is aborted;
* when the API server asks for a pause (Retry-After), nothing at all is sent before it is over; a command that would
  have to wait for more than two seconds is THROTTLED, and a write is sent again only if the API server certainly did
  not apply it;
* the number of requests in flight adapts to how the API server handles them (`throttle.py`).
"""

from __future__ import annotations

import asyncio
import http
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from extender.core.commands import ApiCommand, CommandSet
from extender.core.outcomes import Outcome, OutcomeKind
from extender.kube.client.api import ApiError, ApiServer, Exchange, Interrupted, Response
from extender.kube.lease.elector import Fence, no_fence
from extender.kube.writes.best_effort import BestEffortWriter, HintStats
from extender.kube.writes.fenced import FencedApi
from extender.kube.writes.multiplexer import HttpMultiplexer
from extender.kube.writes.outcome import outcome_of, outcome_of_error, signal_of
from extender.kube.writes.pilot import Pilot
from extender.kube.writes.queue import WriteQueue
from extender.kube.writes.throttle import InFlight, Signal, Throttle

log = structlog.get_logger(__name__)

EventT = TypeVar("EventT")

#: Limit of requests in flight before anything is known of the API server. A binding costs it and etcd less CPU when
#: many arrive together (etcd writes them in one batch), and kube-scheduler itself sends them without any limit.
_START = 16
#: Seconds that an interrupted worker gets to report by itself.
_GRACE = 1.0


@dataclass(slots=True)
class CommitterStats:
    """Counters since the start."""

    #: Reports by kind of command and outcome, such as "WriteBinding done".
    outcomes: dict[str, int] = field(default_factory=dict)
    #: Writes that were certainly not applied, and were queued again.
    retries: int = 0
    hints: HintStats = field(default_factory=HintStats)
    #: Bugs in a worker or in `report` that the thread survived.
    crashes: int = 0
    #: Commands that were submitted after `stop`.
    refused: int = 0


class _Job(Generic[EventT]):
    """One urgent command on its way. The first thread that claims it reports it."""

    __slots__ = ("_claimed", "_lock", "command", "exchange", "given", "kind", "last", "patient_until", "stopped")

    def __init__(self, command: ApiCommand[EventT], given: float) -> None:
        self.command = command
        self.kind = command.name
        self.given = given
        self.patient_until: float | None = None
        #: The outcome to report if it gets no further turn.
        self.last = Outcome(OutcomeKind.THROTTLED, "the API server asks for patience; nothing was sent", 1.0)
        self.exchange: Exchange | None = None
        self.stopped = False
        self._claimed = False
        self._lock = threading.Lock()

    def claim(self) -> bool:
        with self._lock:
            claimed, self._claimed = self._claimed, True
            return not claimed

    def begin(self, exchange: Exchange) -> Exchange:
        with self._lock:
            self.exchange = exchange
            if self.stopped:
                exchange.interrupt()
        return exchange

    def interrupt(self) -> None:
        with self._lock:
            self.stopped = True
            if self.exchange is not None:
                self.exchange.interrupt()


class Committer(Generic[EventT]):
    """Executes commands. Its threads run from construction until `stop`.

    `report` is called on these threads and should return quickly. `least` and `most` bound the number of urgent
    requests that are in flight at once.
    """

    def __init__(
        self,
        api: ApiServer,
        commands: CommandSet[EventT],
        *,
        report: Callable[[EventT], None],
        least: int = 1,
        most: int = 32,
        fence: Fence = no_fence,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = FencedApi(api, fence)
        self._commands = commands
        self._report = report
        self._clock = clock
        self.queue: WriteQueue[_Job[EventT]] = WriteQueue(Throttle(least=least, most=most, start=_START), clock)
        self._lock = threading.Lock()
        self._in_flight: set[_Job[EventT]] = set()
        self._stopping = False
        self._stats = CommitterStats()
        self.best_effort = BestEffortWriter(
            self._api,
            commands.best_effort,
            wait_calm=self.queue.wait_calm,
            pause=self.queue.pause,
            clock=clock,
            wall_clock=wall_clock,
        )
        self._multiplexer = HttpMultiplexer(api)
        #: Jobs that need a thread that may block; None: the end.
        self._slow: queue.SimpleQueue[tuple[_Job[EventT], InFlight] | None] = queue.SimpleQueue()
        self._breaking = False
        self._pilot = Pilot(
            self._multiplexer, self._launch_all, self.queue.patience, self._is_over, self._end, failed=self._crashed
        )
        self._workers = [
            threading.Thread(target=self._work, name=f"commit-{number}", daemon=True) for number in range(most)
        ]
        for thread in (self._pilot.thread, *self._workers):
            thread.start()
        self._threads = [self._pilot.thread, *self._workers, self.best_effort.thread]

    def submit(self, command: object) -> None:
        """Queue a command. After `stop` the command is refused and counted; nothing is written any more.

        Raises TypeError if no kind is registered for it.
        """
        urgent = self._commands.find(command)
        with self._lock:
            if self._stopping:
                self._stats.refused += 1
            elif urgent is not None:
                self.queue.put(_Job(urgent, self._clock()))
                self._pilot.wake()
            else:
                self.best_effort.submit(command)

    @property
    def stats(self) -> CommitterStats:
        """A copy of the counters."""
        with self._lock:
            hints = replace(self.best_effort.stats)
            crashes = self._stats.crashes + hints.crashes
            return replace(self._stats, outcomes=dict(self._stats.outcomes), hints=hints, crashes=crashes)

    def stop(self, timeout: float = 5.0) -> None:
        """Finish the requests in flight, for at most `timeout` seconds; report the rest without sending it."""
        self._pilot.leave_loop()
        with self._lock:
            self._stopping = True
        for job in self.queue.close():
            self._finish(job, Outcome(OutcomeKind.THROTTLED, "the server is stopping; nothing was sent", 1.0))
        self.best_effort.stop()
        self._multiplexer.wake()
        self._join(timeout)
        self._breaking = True
        self._multiplexer.wake()
        for job in self._flying():
            job.interrupt()
        self._join(_GRACE)
        for job in self._flying():
            self._finish(job, Outcome(OutcomeKind.UNKNOWN, "the server stopped before an answer came"))

    def _join(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _flying(self) -> list[_Job[EventT]]:
        with self._lock:
            return list(self._in_flight)

    # -- the pilot ------------------------------------------------------------------------------------------------

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send and read in this event loop, which is the running one, until `leave_loop`."""
        self._pilot.enter_loop(loop)

    def leave_loop(self) -> None:
        """Send and read in a thread again. Idempotent."""
        self._pilot.leave_loop()

    def _is_over(self) -> bool:
        return self._breaking or (self._stopping and not self._multiplexer.busy)

    def _end(self) -> None:
        self._multiplexer.close()
        for _ in self._workers:  # not before: a job that the pilot holds may still need a worker
            self._slow.put(None)

    def _launch_all(self, until: float) -> bool:
        """Send queued commands until that time. Returns whether there may be more to send."""
        while (turn := self.queue.take()) is not None:
            self._launch(*turn)
            if until < math.inf and time.monotonic() > until:
                return True
        return False

    def _launch(self, job: _Job[EventT], flight: InFlight | None) -> None:
        """Send a command that the queue handed out, or hand it to a worker. Without a flight it is reported unsent."""
        if flight is None:
            self._finish(job, job.last)
            return
        with self._lock:
            self._in_flight.add(job)
        try:
            if not (self._turned_away(job, flight) or self._sent(job, flight)):
                self._slow.put((job, flight))
        except Exception as error:
            self._failed(job, flight, error)

    def _sent(self, job: _Job[EventT], flight: InFlight) -> bool:
        """Send the job, or find out that it cannot be sent. Returns False if only a thread that may block can do it."""
        request, term = job.command.request(), job.command.term
        try:
            if (connection := self._api.idle_connection()) is None:
                return False
            self._multiplexer.send(
                connection,
                request,
                self._api.patience(term),
                partial(self._answered, job, flight),
                may_send=partial(self._api.permits, term),
            )
        except ApiError as error:
            self._landed(job, flight, outcome_of_error(error))
        return True

    def _answered(self, job: _Job[EventT], flight: InFlight, result: Response | Interrupted) -> None:
        """Handle the end of a request that the pilot sent: report it, or hand it to a worker for a second attempt."""
        try:
            if isinstance(result, Response):
                if result.status == http.HTTPStatus.UNAUTHORIZED:  # may run an exec plug-in: not in this thread
                    threading.Thread(target=self._api.refused, daemon=True).start()
                self._landed(job, flight, outcome_of(result), result)
            elif self._may_repeat(job, result):
                self._slow.put((job, flight))
            else:
                self._landed(job, flight, outcome_of_error(result))
        except Exception as error:
            self._failed(job, flight, error)

    def _may_repeat(self, job: _Job[EventT], failure: Interrupted) -> bool:
        """Whether to send it once more: only reads, since an idle connection may have been closed before the request
        arrived."""
        return job.command.is_read and not failure.timed_out and not self._stopping

    # -- workers --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (turn := self._slow.get()) is not None:
            job, flight = turn
            try:
                self._carry_out(job, flight)
            except Exception as error:
                self._failed(job, flight, error)
            self._multiplexer.wake()

    def _carry_out(self, job: _Job[EventT], flight: InFlight) -> None:
        """Send the request and wait for its response, in a worker thread."""
        if self._turned_away(job, flight):
            return
        try:
            with job.begin(self._api.exchange(job.command.request(), job.command.term)) as exchange:
                response = exchange.response()
        except ApiError as error:
            self._landed(job, flight, outcome_of_error(error))
        else:
            self._landed(job, flight, outcome_of(response), response)

    # -- both -----------------------------------------------------------------------------------------------------

    def _turned_away(self, job: _Job[EventT], flight: InFlight) -> bool:
        """Whether it must not be sent any more; if so, this is reported."""
        if (unsent := self._forbidden(job)) is None:
            return False
        self._release(job, flight)
        self._finish(job, unsent)
        return True

    def _forbidden(self, job: _Job[EventT]) -> Outcome | None:
        """The outcome if it must not be sent any more, None if it may be sent."""
        if self._clock() > job.given + job.command.valid_for:
            return Outcome(OutcomeKind.THROTTLED, "it waited too long to be sent, and was not", 1.0)
        if not self._api.permits(job.command.term):
            return Outcome(OutcomeKind.THROTTLED, "the term is over; nothing was sent", 1.0)
        return None

    def _landed(self, job: _Job[EventT], flight: InFlight, outcome: Outcome, response: Response | None = None) -> None:
        """Release the flight and then report, so that the next request can start first."""
        permitted = self._api.permits(job.command.term)  # otherwise we may have aborted it ourselves
        if permitted:
            flight.signal, flight.retry_after = signal_of(outcome), outcome.retry_after
        self._release(job, flight)
        if flight.signal is Signal.THROTTLED and permitted:
            job.last = outcome
            if self.queue.put_back(job):
                with self._lock:
                    self._stats.retries += 1
                return
        self._finish(job, *job.command.decoded(outcome, response.body if response is not None else b""))

    def _failed(self, job: _Job[EventT], flight: InFlight, error: Exception) -> None:
        self._crashed("worker failed", error)
        self._release(job, flight)
        self._finish(job, Outcome(OutcomeKind.UNKNOWN, f"internal error: {error!r}"))

    def _release(self, job: _Job[EventT], flight: InFlight) -> None:
        with self._lock:
            if job not in self._in_flight:
                return
            self._in_flight.discard(job)
        self.queue.release(flight)

    def _finish(self, job: _Job[EventT], outcome: Outcome, obj: Any = None) -> None:
        """Report the outcome of a command to the engine, unless it was reported already."""
        if not job.claim():
            return
        with self._lock:
            name = f"{job.kind} {outcome.kind}"
            self._stats.outcomes[name] = self._stats.outcomes.get(name, 0) + 1
        try:
            self._report(job.command.report(outcome, obj))
        except Exception as error:
            self._crashed("report failed", error)

    def _crashed(self, what: str, error: Exception) -> None:
        with self._lock:
            self._stats.crashes += 1
        log.error(what, error=repr(error), exc_info=error)
