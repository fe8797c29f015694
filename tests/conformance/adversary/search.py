"""Runs that fail, and the fewest steps of them that fail at the same place."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from tests.conformance.adversary.run import Run

FOREVER = float("inf")


@dataclass(frozen=True)
class Outcome:
    """`error` is what did not hold, "" if all did, `where` the line that said so; `steps` were done."""

    steps: int
    error: str = ""
    where: str = ""
    trace: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)


def steps_of(seed: int, length: int) -> list[int]:
    """The steps of a run, before anything is left out."""
    return [seed * 1_000_003 + number for number in range(length)]


def attempt(seed: int, steps: list[int], until: float = FOREVER) -> Outcome:
    """One run. `until`: when it stops, by the monotonic clock."""
    run = Run(seed)
    for number, step in enumerate(steps):
        if time.monotonic() > until:
            return Outcome(number, trace=run.trace, did=run.did)
        try:
            run.step(step)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{frame.filename.rpartition('/')[2]}:{frame.name}:{frame.lineno}"
            text = f"{type(error).__name__}: {error}"
            return Outcome(number + 1, text, where, run.trace, run.did)
    return Outcome(len(steps), trace=run.trace, did=run.did)


def shortened(seed: int, steps: list[int], seconds: float) -> list[int]:
    """Fewer steps that fail at the same place, as few as are found in that time."""
    found = attempt(seed, steps)
    steps, until = steps[: found.steps], time.monotonic() + seconds
    size = len(steps) // 2
    while size and time.monotonic() < until:
        at, is_shorter = 0, False
        while at < len(steps) and time.monotonic() < until:
            fewer = steps[:at] + steps[at + size :]
            outcome = attempt(seed, fewer, until)
            if outcome.error and outcome.where == found.where:
                steps, is_shorter = fewer[: outcome.steps], True
            else:
                at += size
        size = size if is_shorter and size == 1 else size // 2
    return steps
