"""How many writes may be in flight: grows by one each round of successes, halves when the API server is overloaded.

Additive increase, multiplicative decrease (Chiu and Jain 1989). One bad round trip gives many bad outcomes, so it
halves once in `_ROUND` seconds at most.
"""

from __future__ import annotations

_LEAST, _MOST = 4.0, 512.0
_ROUND = 1.0


class Window:
    """`size`: how many may be in flight. Nothing may be sent before `opens_at`, seconds of the engine's clock."""

    def __init__(self, size: float = 64.0) -> None:
        self.size = size
        self.opens_at = 0.0
        self._halved_at = float("-inf")

    def succeeded(self) -> None:
        self.size = min(_MOST, self.size + 1.0 / self.size)

    def overloaded(self, now: float, retry_after: float = 0.0) -> None:
        """The API server refused for now, for `retry_after` seconds, or did not answer."""
        if now - self._halved_at >= _ROUND:
            self._halved_at = now
            self.size = max(_LEAST, self.size / 2)
        self.opens_at = max(self.opens_at, now + retry_after)
