"""Measures how long callers wait for pods: a histogram by code for Prometheus, each pool's last minute for the page.

Promises: memory is bounded by the number of pools, not by that of requests; a figure of the last minute is within 10 %
of the true one. Thread-safe.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from extender.claims.codes import ClaimCode
from extender.claims.records import PoolKey
from extender.server.histogram import Histogram
from extender.server.views import Metric

#: Upper bounds of the histogram for Prometheus, seconds.
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: A minute is kept in slots: the length of one, seconds, and their number.
_SLOT, _SLOTS = 5.0, 12
#: The bounds for the page: the first in seconds, each 1.2 times the one before; the last exceeds the longest wait.
_FIRST, _STEP, _NUMBER = 0.0002, 1.2, 95
_LOG_STEP = math.log(_STEP)
#: How many pools' last minutes are kept.
_MOST_POOLS = 10_000


class Latency(NamedTuple):
    """The claims of a pool that succeeded in the last minute: their number, and the 50th and 99th percentile of the
    seconds until the answer; 0 if there were none."""

    answers: int
    p50: float
    p99: float


class AnswerTimes:
    """`clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_code: dict[ClaimCode, Histogram] = {}
        #: By pool: the slots of the last minute, each with its number and its counts by bound.
        self._slots: dict[PoolKey, deque[tuple[int, list[int]]]] = {}

    def add(self, pool: PoolKey, code: ClaimCode, seconds: float) -> None:
        """Count the answer to one request for pods."""
        number = int(self._clock() / _SLOT)
        with self._lock:
            histogram = self._by_code.get(code)
            if histogram is None:
                histogram = self._by_code[code] = Histogram(BOUNDS)
            histogram.observe(seconds)
            if code is not ClaimCode.CLAIMED:
                return  # failed requests can name pools that do not exist; memory must stay bounded
            slots = self._slots.get(pool)
            if slots is None:
                if len(self._slots) >= _MOST_POOLS:
                    self._slots.clear()
                slots = self._slots[pool] = deque(maxlen=_SLOTS)
            if not slots or slots[-1][0] != number:
                slots.append((number, [0] * _NUMBER))
            slots[-1][1][_place(seconds)] += 1

    def latency(self, pool: PoolKey) -> Latency:
        """Return the latency of a pool's claims in the last minute."""
        oldest = int(self._clock() / _SLOT) - _SLOTS
        with self._lock:
            found = [counts for number, counts in self._slots.get(pool, ()) if number > oldest]
            sums = [sum(column) for column in zip(*found, strict=True)]
        return Latency(sum(sums), _quantile(sums, 0.5), _quantile(sums, 0.99))

    def metric(self) -> Metric:
        """Return the histogram for a scrape."""
        with self._lock:
            known = sorted(self._by_code.items())
            samples = [each for code, histogram in known for each in histogram.samples(code=code.value)]
            sums = [({"code": code.value}, histogram.sum) for code, histogram in known]
        return Metric(
            "waggle_claims_answer_seconds",
            "histogram",
            "Time from a request for pods to its answer, by code.",
            samples,
            sums,
        )


def _place(seconds: float) -> int:
    return min(_NUMBER - 1, max(0, 1 + int(math.log(seconds / _FIRST) / _LOG_STEP))) if seconds > _FIRST else 0


def _quantile(counts: list[int], share: float) -> float:
    """Return the geometric middle of the slot in which the quantile is."""
    rank, reached = math.ceil(share * sum(counts)), 0
    for place, count in enumerate(counts):
        reached += count
        if count and reached >= rank:
            return _FIRST * math.pow(_STEP, place - 0.5)
    return 0.0
