"""The clock of a plan: it stands still while things happen, and jumps to what waits for time.

Each reading is a little later than the one before, so that what happens later also counts as later: kube-scheduler's
queue orders pods of one priority by the time of their last failure.
"""

from __future__ import annotations

#: Seconds between two readings: about what one attempt takes.
TICK = 0.0005


class PlanClock:
    """Seconds from the beginning of the plan. Never goes back."""

    def __init__(self) -> None:
        self._now = 0.0

    @property
    def time(self) -> float:
        """The latest reading."""
        return self._now

    def read(self) -> float:
        """The time of the next thing that happens."""
        self._now += TICK
        return self._now

    def jump(self, to: float) -> None:
        """Let the time pass; a time in the past changes nothing."""
        self._now = max(self._now, to)
