"""Limits how many writes are in flight: one more for each window of successes, half if the API server is overloaded.

Additive increase, multiplicative decrease (Chiu and Jain 1989). One slow round trip makes many writes fail, so the
window is halved at most once in `_ROUND` seconds.
"""

from __future__ import annotations

_LEAST, _MOST = 4.0, 512.0
_ROUND = 1.0


class Window:
    """`size`: how many writes may be in flight. None may be sent before `opens_at`, seconds of the engine's clock."""

    def __init__(self, size: float = 64.0) -> None:
        self.size = size
        self.opens_at = 0.0
        self._halved_at = float("-inf")

    def succeeded(self) -> None:
        if self.size < _MOST:
            self.size = min(_MOST, self.size + 1.0 / self.size)

    def overloaded(self, now: float, retry_after: float = 0.0) -> None:
        """The API server has asked to retry after `retry_after` seconds, or did not answer."""
        if now - self._halved_at >= _ROUND:
            self._halved_at = now
            self.size = max(_LEAST, self.size / 2)
        self.opens_at = max(self.opens_at, now + retry_after)
