"""How many requests may be on their way to the API server at once: found out by trying, not configured. Sans-I/O.

                          429, 503 + Retry-After, unreachable: and nothing starts before the time is up
                          time-outs and 5xx, when they are not single ones
         +------------------------------------------------------------------------------------+
         v                                                                                    |
    limit halves --> grows to `known`, by one a success --> waits for an interval --> one more --> `known`
                     (it doubles each round trip)           ^                                        |
                                                            +----------------------------------------+

`known` is what went well before it was too much; at first, the most that is allowed.

Why it looks like this:

* Additive increase, multiplicative decrease, as TCP does and the adaptive concurrency limits that were made after it;
  client-go has only fixed rates, and Kubernetes' own flow control (API Priority and Fairness) answers 429.
* One 429 stops *all* requests for its Retry-After, mostly a second. That is dear, so what was too much before is tried
  again by the clock and not by round trips: the interval doubles when a try failed and halves when it held.
* A server that refuses everything tells nothing about how much it takes: after an outage it is soon as it was before.
* What was sent before the limit was cut tells nothing about the limit after it: one cut for each round of requests.
* The limit grows only while it is the limit that holds requests back, and while they take about as long as the
  quickest lately: more requests than the server (or this process) can work on only wait somewhere else.
* The quickest is forgotten after half a minute; then the limit is halved for a moment, so that the next one is not
  measured in a queue of our own making.
* A single 500 says nothing about the server: it may be one namespace's broken webhook.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

#: Where it starts, unless it is told otherwise or the bounds are.
_START = 4
#: Seconds between two tries of one more; the first, and the bounds.
_INTERVAL, _SHORTEST_INTERVAL, _LONGEST_INTERVAL = 1.0, 0.1, 60.0
#: A request is quick if it takes at most this many times the quickest, plus these seconds.
_SLOWER, _SLACK = 2.0, 0.002
#: Seconds for which the quickest counts, and the weight of the latest in the moving average.
_MEMORY, _WEIGHT = 30.0, 0.2
#: Failures cut the limit when their moving share (weight 1/8) is more than this: at the third in a row.
_FAILURE_WEIGHT, _MANY_FAILURES = 0.125, 0.25


class Signal(Enum):
    """What the end of a request tells about the server."""

    #: Nothing: it was never sent, or broken off by ourselves.
    NONE = auto()
    #: It did the work.
    DONE = auto()
    #: It is well, and refused this one.
    REFUSED = auto()
    #: It wants less, for some time.
    THROTTLED = auto()
    #: It did not answer, or said that it could not.
    FAILED = auto()


@dataclass(slots=True, eq=False)
class InFlight:
    """A request on its way. Whoever makes it fills in the signal."""

    kind: str
    number: int
    started: float
    #: How many were under way when it started, itself among them, and whether it took the last place.
    among: int
    full: bool
    signal: Signal = Signal.NONE
    #: Seconds; with THROTTLED.
    retry_after: float = 0.0


class Throttle:
    """Counts flights. Not thread-safe; `now` is in seconds of a clock that never goes back.

    Promises: a flight starts only when `wait` is 0; `least` <= limit <= `most`, always.
    """

    def __init__(self, *, least: int, most: int, start: int = _START) -> None:
        """`start` is kept within the bounds. Raises ValueError if not 1 <= least <= most."""
        if not 1 <= least <= most:
            raise ValueError(f"expected 1 <= least <= most, got least={least}, most={most}")
        self._least, self._most = least, most
        self.limit = min(max(start, least), most)
        #: Up to here it was fine, or nobody has said otherwise.
        self._known = most
        self._interval = _INTERVAL
        self._next_try = 0.0
        self._tried = False
        self._numbers = 0
        #: Flights up to this number were sent before the limit was last cut. Later ones that were done were among so
        #: many; 0: none was.
        self._cut_at = 0
        self._served = 0
        self._failures = 0.0
        self._paused_until = -math.inf
        self._latencies: dict[str, _Latency] = {}
        self.in_flight = 0
        #: How often the server asked for patience, and how often the limit was cut.
        self.pauses = 0
        self.cuts = 0

    def paused(self, now: float) -> float:
        """Seconds until the server may be asked anything again; 0 if it may now."""
        return max(0.0, self._paused_until - now)

    def wait(self, now: float) -> float:
        """Seconds until a flight may start: 0 is now, infinity is when another has finished."""
        if (paused := self.paused(now)) > 0:
            return paused
        return 0.0 if self.in_flight < self.limit else math.inf

    def start(self, kind: str, now: float) -> InFlight:
        """Requests of one `kind` take about the same time when nothing is in their way."""
        self.in_flight += 1
        self._numbers += 1
        return InFlight(kind, self._numbers, now, self.in_flight, full=self.in_flight >= self.limit)

    def finish(self, flight: InFlight, now: float) -> None:
        """The flight has ended, with its signal."""
        self.in_flight -= 1
        match flight.signal:
            case Signal.DONE:
                self._count_failure(0.0)
                self._done(flight, now)
            case Signal.REFUSED:
                self._count_failure(0.0)
            case Signal.THROTTLED:
                self.pause(flight.retry_after, now)
                self._cut(flight, now)
            case Signal.FAILED:
                self._count_failure(1.0)
                if self._failures > _MANY_FAILURES:
                    self._cut(flight, now)

    def pause(self, seconds: float, now: float) -> None:
        """The server wants to be left alone."""
        self.pauses += 1
        self._paused_until = max(self._paused_until, now + seconds)

    def _count_failure(self, failed: float) -> None:
        self._failures += _FAILURE_WEIGHT * (failed - self._failures)

    def _cut(self, flight: InFlight, now: float) -> None:
        if flight.number <= self._cut_at:
            return
        self.cuts += 1
        self._cut_at = self._numbers
        if self._served:
            self._learn_that_it_was_too_much()
        self.limit = max(self._least, self.limit // 2)
        self._next_try = now + self.paused(now) + self._interval

    def _learn_that_it_was_too_much(self) -> None:
        """One more of many is worth less than one more of few, and a try that fails costs the same."""
        served = max(self._served, self.limit // 2)
        self._known = max(self._least, min(self._known, self.limit - 1, served))
        longer = 2 * self._interval if self._tried else self._interval
        self._interval = min(max(longer, float(self._known)), _LONGEST_INTERVAL)
        self._tried, self._served = False, 0

    def _done(self, flight: InFlight, now: float) -> None:
        latency = self._latencies.setdefault(flight.kind, _Latency())
        quick = latency.quick(now - flight.started, now)
        if flight.number > self._cut_at:
            self._served = max(self._served, flight.among)
        if not flight.full:
            return
        if latency.forgotten:
            self.limit = max(self._least, self.limit // 2)
        elif not quick:
            self._known = min(self._known, self.limit)
        elif self.limit < self._known:
            self.limit = min(self._known, self.limit + 1)
        elif now >= self._next_try:
            self._try_one_more(now)

    def _try_one_more(self, now: float) -> None:
        if self._tried:  # the last one held
            self._interval = max(self._interval / 2, _SHORTEST_INTERVAL)
        self._tried = True
        self.limit = self._known = min(self._most, self.limit + 1)
        self._next_try = now + self._interval


class _Latency:
    """How long requests of one kind take, against the quickest lately. Seconds."""

    def __init__(self) -> None:
        self._quickest = math.inf
        self._since = 0.0
        self._average = math.inf
        #: The quickest was too long ago with the latest request; that one counts instead.
        self.forgotten = False

    def quick(self, latest: float, now: float) -> bool:
        """Whether requests take, after the latest one, about as long as they need to."""
        self.forgotten = self._quickest < latest and now - self._since > _MEMORY
        if latest <= self._quickest or self.forgotten:
            self._quickest, self._since = latest, now
        if self._average == math.inf:
            self._average = latest
        self._average += _WEIGHT * (latest - self._average)
        return self._average <= _SLOWER * self._quickest + _SLACK
