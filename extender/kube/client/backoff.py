"""Exponential back-off with jitter, reset after a healthy minute."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """Seconds."""

    #: The shortest delay, and about the longest.
    shortest: float = 0.8
    longest: float = 30.0
    #: If there is no failure for this long after a delay, the next failure counts as a first one again.
    healthy: float = 60.0


class Backoff:
    """Delays in seconds. Each is drawn between half and all of a bound that doubles up to `longest`."""

    def __init__(self, settings: BackoffSettings, clock: Callable[[], float], rng: random.Random) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._calm_from = float("-inf")

    def next(self, *, first: float | None = None) -> float:
        """Return the delay after a failure. `first`: the delay if this is the first failure (some are routine)."""
        now = self._clock()
        if now - self._calm_from >= self._settings.healthy:
            self._failures = 0
        delay = self._drawn() if first is None or self._failures else first
        self._failures += 1
        self._calm_from = now + delay
        return delay

    def _drawn(self) -> float:
        doublings = min(self._failures, 30)
        bound = min(self._settings.longest, 2 * self._settings.shortest * 2.0**doublings)
        return self._rng.uniform(bound / 2, bound)
