"""Measures how often something happens."""

from __future__ import annotations

from collections import deque

#: How long an occurrence counts, seconds, and how many are kept.
_WINDOW, _MOST = 300.0, 256


class Rate:
    """The times of the last 256 occurrences within five minutes."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_MOST)

    def add(self, now: float) -> None:
        self._times.append(now)

    def clear(self) -> None:
        self._times.clear()

    def rate(self, now: float) -> float:
        """Return the occurrences per second."""
        while self._times and self._times[0] < now - _WINDOW:
            self._times.popleft()
        return len(self._times) / max(now - self._times[0], 1.0) if self._times else 0.0
