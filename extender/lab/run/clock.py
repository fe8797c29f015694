"""The clock of a simulation: it shows the time of a moment, and jumps to the next one.

Everything at one moment happens at once. Each reading is a millionth of a second later than the one before, since
kube-scheduler's queue orders pods by the times of their last failures.
"""

from __future__ import annotations

from extender.plan.run.clock import PlanClock

#: Seconds between two readings.
TICK = 1e-6


class LabClock(PlanClock):
    """A clock of virtual time. `moment` is the time of the current events; each reading is a little later."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = 0.0

    def read(self) -> float:
        self._now += TICK
        return self._now

    def jump(self, to: float) -> None:
        super().jump(to)
        self.moment = max(self.moment, to)
