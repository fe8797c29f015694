"""How many requests may be in flight to the API server at once: measured, not configured. Sans-I/O.

                          429, 503 + Retry-After, unreachable: and nothing starts before the time is up
                          time-outs and 5xx, when they are not single ones
         +------------------------------------------------------------------------------------+
         v                                                                                    |
    limit halves --> grows to `known`, by one a success --> waits for an interval --> one more --> `known`
                     (it doubles each round trip)           ^                                        |
                                                            +----------------------------------------+

`known` is the limit that worked before it was too high; at first, it is the configured maximum.

Why it works like this:

* Additive increase, multiplicative decrease, like TCP and the adaptive concurrency limits modelled on it. client-go has
  only fixed rates, and Kubernetes' own flow control (API Priority and Fairness) answers 429.
* One 429 stops *all* requests for its Retry-After, mostly a second. That is expensive, so a limit that was too high
  before is tried again after an interval of time and not after some round trips. The interval doubles when an attempt
  fails and halves when it succeeds.
* A server that refuses everything says nothing about its capacity: after an outage the limit is soon back to what it
  was before.
* Requests that were sent before a cut say nothing about the limit after it: the limit is cut once per round of
  requests.
* The limit grows only while it is what holds requests back, and while their latency stays near the lowest recent one:
  further requests would exceed what the server (or this process) can work on, and only wait somewhere else.
* The lowest latency expires after half a minute. The limit is then halved for a moment, so that the next measurement
  does not include a queue of our own making.
* A single 500 says nothing about the server: it may come from one namespace's broken webhook.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

#: Initial limit, unless the caller gives another one or the bounds exclude it.
_START = 4
#: Seconds between two attempts to raise the limit by one: the first interval, and the bounds.
_INTERVAL, _SHORTEST_INTERVAL, _LONGEST_INTERVAL = 1.0, 0.1, 60.0
#: A request is quick if it takes at most this many times the lowest latency, plus these seconds.
_SLOWER, _SLACK = 2.0, 0.002
#: Seconds for which the lowest latency counts, and the weight of the latest in the moving average.
_MEMORY, _WEIGHT = 30.0, 0.2
#: Failures cut the limit when their moving share (weight 1/8) is more than this: at the third in a row.
_FAILURE_WEIGHT, _MANY_FAILURES = 0.125, 0.25


class Signal(Enum):
    """What the end of a request says about the server."""

    #: Nothing: the request was never sent, or we aborted it.
    NONE = auto()
    #: The server did the work.
    DONE = auto()
    #: The server is healthy, and refused this request.
    REFUSED = auto()
    #: The server wants fewer requests, for some time.
    THROTTLED = auto()
    #: The server did not answer, or answered that it could not.
    FAILED = auto()


@dataclass(slots=True, eq=False)
class InFlight:
    """A request in flight. The code that sends the request fills in the signal."""

    kind: str
    number: int
    started: float
    #: How many were in flight when it started, including itself, and whether it took the last place.
    among: int
    full: bool
    signal: Signal = Signal.NONE
    #: Seconds; with THROTTLED.
    retry_after: float = 0.0


class Throttle:
    """Limits the number of flights. Not thread-safe; `now` is in seconds of a clock that never goes back.

    Promises: a flight starts only when `wait` is 0; `least` <= limit <= `most`, always.
    """

    def __init__(self, *, least: int, most: int, start: int = _START) -> None:
        """`start` is kept within the bounds. Raises ValueError if not 1 <= least <= most."""
        if not 1 <= least <= most:
            raise ValueError(f"expected 1 <= least <= most, got least={least}, most={most}")
        self._least, self._most = least, most
        self.limit = min(max(start, least), most)
        #: The highest limit that worked, or `most` as long as none has failed.
        self._known = most
        self._interval = _INTERVAL
        self._next_try = 0.0
        self._tried = False
        self._numbers = 0
        #: Flights up to this number were sent before the limit was last cut. `_served` is the largest number of
        #: requests in flight at which a later one was done; 0: none was.
        self._cut_at = 0
        self._served = 0
        self._failures = 0.0
        self._paused_until = -math.inf
        self._latencies: dict[str, _Latency] = {}
        self.in_flight = 0
        #: How often the server asked for a pause, and how often the limit was cut.
        self.pauses = 0
        self.cuts = 0

    def paused(self, now: float) -> float:
        """Seconds until any request may be sent again; 0 if one may be sent now."""
        return max(0.0, self._paused_until - now)

    def wait(self, now: float) -> float:
        """Seconds until a flight may start: 0 is now, infinity is when another flight ends."""
        if (paused := self.paused(now)) > 0:
            return paused
        return 0.0 if self.in_flight < self.limit else math.inf

    def start(self, kind: str, now: float) -> InFlight:
        """Start a flight. Requests of one `kind` take about the same time on an idle server."""
        self.in_flight += 1
        self._numbers += 1
        return InFlight(kind, self._numbers, now, self.in_flight, full=self.in_flight >= self.limit)

    def finish(self, flight: InFlight, now: float) -> None:
        """End a flight, and adapt the limit to its signal."""
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
        """Send nothing for `seconds`: the server asked for a pause."""
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
        """Lower `known`, and lengthen the interval.

        Raising a high limit by one gains less than raising a low one, and a failed attempt costs the same.
        """
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
        if self._tried:  # the last attempt succeeded
            self._interval = max(self._interval / 2, _SHORTEST_INTERVAL)
        self._tried = True
        self.limit = self._known = min(self._most, self.limit + 1)
        self._next_try = now + self._interval


class _Latency:
    """Latency of requests of one kind, compared with the lowest recent one. Seconds."""

    def __init__(self) -> None:
        self._quickest = math.inf
        self._since = 0.0
        self._average = math.inf
        #: The lowest latency expired with the latest request, which now takes its place.
        self.forgotten = False

    def quick(self, latest: float, now: float) -> bool:
        """Record a latency, and return whether requests still take about as long as they need to."""
        self.forgotten = self._quickest < latest and now - self._since > _MEMORY
        if latest <= self._quickest or self.forgotten:
            self._quickest, self._since = latest, now
        if self._average == math.inf:
            self._average = latest
        self._average += _WEIGHT * (latest - self._average)
        return self._average <= _SLOWER * self._quickest + _SLACK
