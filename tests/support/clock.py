"""The clock of tests: it moves only when the test sets `now`, so that no test waits and none depends on the host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Stands for `time.monotonic`. `now` is in seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
