"""Counts what callers asked for and got, on their side, so that a crash of Waggle does not reset it.

    asked = claimed + failed (by code) + left + pending        at every moment

`left`: requests whose caller disconnected before the answer. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

#: How many of the latest answers are kept for percentiles.
_MOST_ANSWERS = 4096
#: How many violations are reported.
_MOST_WRONG = 10


@dataclass(frozen=True)
class Hold:
    """A pod that a caller has. `until`: when its lease ends, if the caller does not renew it."""

    pod: str
    claim: str
    until: float


@dataclass(frozen=True)
class Numbers:
    """The numbers of requests for one pool, or for all."""

    asked: int
    claimed: int
    left: int
    failed: dict[str, int]

    @property
    def pending(self) -> int:
        return self.asked - self.claimed - self.left - sum(self.failed.values())


class Books:
    """`clock` is in seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock = time.monotonic
        self._asked: Counter[str] = Counter()
        self._claimed: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._failed: Counter[tuple[str, str]] = Counter()
        #: Latest answers: when, of which pool, and after how many seconds.
        self._answers: deque[tuple[float, str, float]] = deque(maxlen=_MOST_ANSWERS)
        #: By the pod's UID.
        self._holds: dict[str, Hold] = {}
        self._pods = 0
        self._wrong: list[str] = []

    # -- callers --------------------------------------------------------------------------------------------------

    def asked(self, pool: str) -> None:
        with self._lock:
            self._asked[pool] += 1

    def claimed(
        self, pool: str, seconds: float, claim: str, pods: Iterable[tuple[str, str]], lease: float | None
    ) -> None:
        """Count a request that got `pods` (UID and name) after `seconds`. `lease`: seconds until they may be claimed
        again; None: the caller renews them."""
        now = self._clock()
        with self._lock:
            self._claimed[pool] += 1
            self._answers.append((now, pool, seconds))
            for uid, name in pods:
                self._pods += 1
                before = self._holds.get(uid)
                if before is not None and before.until > now:
                    self._blame(f"pod {name} was given to {claim} while {before.claim} had it")
                self._holds[uid] = Hold(name, claim, float("inf") if lease is None else now + lease)

    def gives_back(self, uids: Iterable[str]) -> None:
        """Record that a caller starts to release its pods."""
        with self._lock:
            for uid in uids:
                self._holds.pop(uid, None)

    def failed(self, pool: str, code: str) -> None:
        with self._lock:
            self._failed[pool, code] += 1

    def left(self, pool: str) -> None:
        with self._lock:
            self._left[pool] += 1

    def blame(self, text: str) -> None:
        """Record a violation of an invariant."""
        with self._lock:
            self._blame(text)

    def _blame(self, text: str) -> None:
        if len(self._wrong) < _MOST_WRONG and text not in self._wrong:
            self._wrong.append(text)

    # -- readers --------------------------------------------------------------------------------------------------

    def numbers(self, pool: str = "") -> Numbers:
        """Return the numbers of one pool, or of all."""
        with self._lock:
            failed: Counter[str] = Counter()
            for (name, code), count in self._failed.items():
                if pool in ("", name):
                    failed[code] += count
            sums = (sum(each.values()) if not pool else each[pool] for each in (self._asked, self._claimed, self._left))
            asked, claimed, left = sums
            return Numbers(asked, claimed, left, dict(failed))

    def answers(self, since: float, pool: str = "") -> list[float]:
        """Return the sorted seconds from request to claim, of claims since `since` (`time.monotonic`)."""
        with self._lock:
            return sorted(took for at, name, took in self._answers if at >= since and pool in ("", name))

    def holds(self) -> dict[str, Hold]:
        """Return the pods that callers have, by UID."""
        with self._lock:
            return dict(self._holds)

    @property
    def pods(self) -> int:
        """How many pods were handed out."""
        return self._pods

    @property
    def wrong(self) -> list[str]:
        with self._lock:
            return list(self._wrong)


def percentile(ordered: list[float], share: float) -> float | None:
    """Return the percentile of sorted numbers, for a `share` from 0 to 1; None if there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
