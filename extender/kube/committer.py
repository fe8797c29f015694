"""Carries out what the heart wants done at the API server, and reports how each write ended.

    submit --> urgent (bindings, reads, evictions) --> N workers --> report(event), exactly once each
          \\-> hints (nudges, events; bounded) -------> 1 worker ---> nothing

Promises:

* `submit` never blocks and never calls `report`;
* every accepted WriteBinding, ReadPod and Evict is reported exactly once, whatever fails: an answer, a time-out, a
  bug in here, or `stop` (what was never sent is THROTTLED, what may have been is UNKNOWN);
* a hint never delays a write: hints have their own worker, and are dropped and counted when there are too many;
* nothing is written for a term that is over, or about to be: it is THROTTLED, and what hangs then is broken off;
* a write is repeated only if the API server certainly did not do it (throttled, unreachable), for two seconds at most.
"""

from __future__ import annotations

import itertools
import math
import queue
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import structlog

from algorithm.model import DecodeError, Pod, decode_pod
from extender.core.events import (
    BindFinished,
    Event,
    Evict,
    EvictFinished,
    Nudge,
    Outcome,
    OutcomeKind,
    PodRead,
    ReadPod,
    RecordEvent,
    WriteBinding,
)
from extender.kube import writes
from extender.kube.api import ApiError, ApiServer, Exchange, Response
from extender.kube.lease import Fence, eternal
from extender.kube.outcome import outcome_of, outcome_of_error

log = structlog.get_logger(__name__)

Urgent = WriteBinding | ReadPod | Evict
Hint = Nudge | RecordEvent

_MOST_HINTS = 1000
#: Seconds that one throttled write is tried again in here before the heart hears of it.
_RETRY_BUDGET = 2.0
#: Seconds within which the same Event on the same pod is told only once, and how many are remembered.
_SAME_EVENT = 300.0
_EVENTS_REMEMBERED = 4096
#: Seconds that an interrupted worker gets to report by itself.
_GRACE = 1.0
#: Seconds that a term must still last for a write to be sent: it should arrive before somebody else may decide.
_LEAST_TIME = 0.25


@dataclass(slots=True)
class CommitterStats:
    """Counters since the start."""

    #: Reports by kind of instruction and outcome, such as "WriteBinding done".
    outcomes: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    hints_done: int = 0
    hints_failed: int = 0
    hints_dropped: int = 0
    #: Events not written since the same had just been told.
    events_repeated: int = 0
    #: Bugs in a worker or in `report` that were survived.
    crashes: int = 0
    #: Instructions that came after `stop`.
    refused: int = 0


class _Job:
    """One urgent instruction on its way; whoever claims it first reports it."""

    __slots__ = ("_claimed", "_lock", "exchange", "given", "instruction", "stopped")

    def __init__(self, instruction: Urgent, given: float) -> None:
        self.instruction = instruction
        self.given = given
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


class Committer:
    """Its threads run from the making until `stop`. `report` is called on them; it should be quick."""

    def __init__(
        self,
        api: ApiServer,
        *,
        workers: int,
        report: Callable[[Event], None],
        fence: Fence = eternal,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._report = report
        self._fence = fence
        self._clock = clock
        self._wall_clock = wall_clock
        self._urgent: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._hints: queue.SimpleQueue[Hint | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._in_flight: set[_Job] = set()
        self._stopping = threading.Event()
        self._stats = CommitterStats()
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._serial = itertools.count()
        self._instance = f"{writes.COMPONENT}-{socket.gethostname()}"[:128]
        self._hint_exchange: Exchange | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"commit-{number}", daemon=True) for number in range(workers)
        ]
        self._threads.append(threading.Thread(target=self._give_hints, name="commit-hints", daemon=True))
        for thread in self._threads:
            thread.start()

    def submit(self, instruction: Urgent | Hint) -> None:
        """Accept an instruction. After `stop` it is refused and counted: nothing is written any more."""
        with self._lock:
            if self._stopping.is_set():
                self._stats.refused += 1
            elif isinstance(instruction, Urgent):
                self._urgent.put(_Job(instruction, self._clock()))
            elif self._hints.qsize() < _MOST_HINTS:
                self._hints.put(instruction)
            else:
                self._stats.hints_dropped += 1

    @property
    def depth(self) -> int:
        """Urgent instructions that no worker has taken up yet."""
        return self._urgent.qsize()

    @property
    def stats(self) -> CommitterStats:
        """A copy of the counters."""
        with self._lock:
            return replace(self._stats, outcomes=dict(self._stats.outcomes))

    def stop(self, timeout: float = 5.0) -> None:
        """Finish what is in flight, for at most `timeout` seconds; report the rest without sending it."""
        with self._lock:
            self._stopping.set()
        self._report_unsent()
        for _ in self._threads:
            self._urgent.put(None)
        self._hints.put(None)
        with self._lock:
            if self._hint_exchange is not None:
                self._hint_exchange.interrupt()
        self._join(timeout)
        for job in self._flying():
            job.interrupt()
        self._join(_GRACE)
        for job in self._flying():
            self._finish(job, Outcome(OutcomeKind.UNKNOWN, "the server stopped before an answer came"))

    def _report_unsent(self) -> None:
        while True:
            try:
                job = self._urgent.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                self._finish(job, _never_sent())

    def _join(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _flying(self) -> list[_Job]:
        with self._lock:
            return list(self._in_flight)

    # -- urgent --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._urgent.get()) is not None:
            with self._lock:
                self._in_flight.add(job)
            try:
                self._carry_out(job)
            except Exception as error:
                self._crashed("worker failed", error)
                self._finish(job, Outcome(OutcomeKind.UNKNOWN, f"internal error: {error!r}"))
            finally:
                with self._lock:
                    self._in_flight.discard(job)

    def _carry_out(self, job: _Job) -> None:
        if not isinstance(job.instruction, ReadPod) and self._clock() > job.given + job.instruction.valid_for:
            self._finish(job, Outcome(OutcomeKind.THROTTLED, "it waited too long to be sent, and was not", 1.0))
            return
        match job.instruction:
            case WriteBinding() as write:
                self._finish(job, self._patiently(job, writes.bind(write))[0])
            case Evict() as eviction:
                # Not repeated: 429 is a PodDisruptionBudget, and that lasts.
                self._finish(job, self._once(job, writes.evict(eviction))[0])
            case ReadPod() as read:
                outcome, response = self._patiently(job, writes.read(read))
                self._finish(job, *_pod_of(outcome, response))

    def _patiently(self, job: _Job, request: writes.Request) -> tuple[Outcome, Response | None]:
        """Try, and as long as it is certain that nothing was done, try again within the budget."""
        end = self._clock() + _RETRY_BUDGET
        while True:
            outcome, response = self._once(job, request)
            wait = max(outcome.retry_after, 0.1)
            over = self._time_left(job.instruction) <= _LEAST_TIME
            if outcome.kind is not OutcomeKind.THROTTLED or over or self._clock() + wait > end:
                return outcome, response
            with self._lock:
                self._stats.retries += 1
            if self._stopping.wait(wait):
                return outcome, response

    def _once(self, job: _Job, request: writes.Request) -> tuple[Outcome, Response | None]:
        if self._time_left(job.instruction) <= _LEAST_TIME:
            return Outcome(OutcomeKind.THROTTLED, "the term is over; nothing was sent", 1.0), None
        exchange = job.begin(self._exchange(request, job.instruction))
        try:
            response = _complete(exchange)
        except ApiError as error:
            return outcome_of_error(error), None
        return outcome_of(response), response

    def _exchange(self, request: writes.Request, instruction: Urgent | Hint) -> Exchange:
        """The request, which leaves only while the instruction's term lasts, and waits no longer than that."""
        return self._api.exchange(
            request.method,
            request.path,
            body=request.body,
            content_type=request.content_type,
            timeout=max(_LEAST_TIME, min(self._api.timeout, self._time_left(instruction))),
            may_send=lambda: self._time_left(instruction) > _LEAST_TIME,
        )

    def _time_left(self, instruction: Urgent | Hint) -> float:
        """Seconds for which it may be sent; a read always may."""
        return math.inf if isinstance(instruction, ReadPod) else self._fence(instruction.term)

    def _finish(self, job: _Job, outcome: Outcome, pod: Pod | None = None) -> None:
        if not job.claim():
            return
        with self._lock:
            name = f"{type(job.instruction).__name__} {outcome.kind}"
            self._stats.outcomes[name] = self._stats.outcomes.get(name, 0) + 1
        try:
            self._report(_report_of(job.instruction, outcome, pod))
        except Exception as error:
            self._crashed("report failed", error)

    def _crashed(self, what: str, error: Exception) -> None:
        with self._lock:
            self._stats.crashes += 1
        log.error(what, error=repr(error), exc_info=error)

    # -- hints ---------------------------------------------------------------------------------------------------

    def _give_hints(self) -> None:
        while (hint := self._hints.get()) is not None:
            if self._stopping.is_set():
                continue
            try:
                self._give(hint)
            except Exception as error:
                self._crashed("hint failed", error)

    def _give(self, hint: Hint) -> None:
        if isinstance(hint, RecordEvent) and self._just_told(hint):
            with self._lock:
                self._stats.events_repeated += 1
            return
        done = self._give_once(self._exchange(self._hint_request(hint), hint))
        if not done and isinstance(hint, RecordEvent):
            self._told.pop(_topic(hint), None)
        with self._lock:
            self._stats.hints_done += done
            self._stats.hints_failed += not done

    def _hint_request(self, hint: Hint) -> writes.Request:
        now, serial = self._wall_clock(), next(self._serial)
        if isinstance(hint, Nudge):
            return writes.nudge(hint, value=f"{now.isoformat()}-{serial}")
        return writes.record(hint, now=now, serial=serial, instance=self._instance)

    def _give_once(self, exchange: Exchange) -> bool:
        with self._lock:
            self._hint_exchange = exchange
            if self._stopping.is_set():
                return False
        try:
            response = _complete(exchange)
        except ApiError as error:
            log.info("hint not written", error=str(error))
            return False
        if not response.ok and response.status != 404:
            log.info("hint refused", status=response.status, error=response.message)
        return response.ok

    def _just_told(self, event: RecordEvent) -> bool:
        """Whether the same was told of the pod within the last minutes; remembers it if not."""
        key = _topic(event)
        now = self._clock()
        if now - self._told.get(key, float("-inf")) < _SAME_EVENT:
            return True
        self._told[key] = now
        self._told.move_to_end(key)
        if len(self._told) > _EVENTS_REMEMBERED:
            self._told.popitem(last=False)
        return False


def _topic(event: RecordEvent) -> tuple[str, str, str]:
    return event.uid or f"{event.namespace}/{event.name}", str(event.reason.code), event.reason.text


def _complete(exchange: Exchange) -> Response:
    with exchange:
        return Response(exchange.status, exchange.read(), exchange.headers)


def _never_sent() -> Outcome:
    return Outcome(OutcomeKind.THROTTLED, "the server is stopping; nothing was sent", 1.0)


def _pod_of(outcome: Outcome, response: Response | None) -> tuple[Outcome, Pod | None]:
    if outcome.kind is not OutcomeKind.DONE or response is None:
        return outcome, None
    try:
        return outcome, decode_pod(response.body)
    except DecodeError as error:
        return Outcome(OutcomeKind.UNKNOWN, f"pod cannot be read: {error}"), None


def _report_of(instruction: Urgent, outcome: Outcome, pod: Pod | None) -> Event:
    match instruction:
        case WriteBinding():
            return BindFinished(instruction.token, outcome)
        case Evict():
            return EvictFinished(instruction.token, outcome, instruction.uid)
        case ReadPod():
            return PodRead(instruction.token, outcome, pod)
