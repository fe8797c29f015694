"""What a replay costs: CPU time of an event, for reading it, for deciding, and for all of `waggle replay`.

    python -m tests.bench.replay LOG [LOG ...] [--rounds 9]

Each figure is that of the best round, as neighbours on the machine only add to it, and is of all events of a run.
*Reading* is decompressing and decoding, *deciding* what engine and algorithm do with the events, as in the server. What
*replay* takes beyond both is comparing the answers, counting decisions, and weighing what is held. *Times as fast* is
how much faster than it happened that is; events a second say how dense the log is.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from extender.operate.quiet_collector import quiet_collector
from extender.recording.log import Recording, open_log
from extender.recording.records import Step
from extender.recording.replaying import Replay, replay_on

_US = 1e6


class Cost(NamedTuple):
    """Of one run of a server; CPU microseconds for an event."""

    events: int
    seconds: float
    reading: float
    deciding: float
    replay: float

    @property
    def times(self) -> float:
        return self.seconds * _US / (self.replay * self.events)

    @property
    def density(self) -> float:
        """Events a second; infinite if all came at once."""
        return self.events / self.seconds if self.seconds else math.inf


def cost_of(recording: Recording, rounds: int) -> Cost | None:
    """Measure one run; None if it has no event. A log with a gap is measured up to it."""
    steps = [item for item in recording.steps() if isinstance(item, Step)]
    if not steps:
        return None

    def read() -> None:
        for _ in recording.steps():
            pass

    def decide() -> None:
        for _ in replay_on(Replay(recording).engine, steps):
            pass

    def replay() -> None:
        for played in Replay(recording):
            if played.divergence is not None:
                raise SystemExit(f"{recording.name}: event {played.step.number} is decided differently")
            _ = played.decisions

    best = [min(_cpu(work) for _ in range(rounds)) * _US / len(steps) for work in (read, decide, replay)]
    return Cost(len(steps), steps[-1].at - steps[0].at, *best)


def _cpu(work: Callable[[], None]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.replay", description="What does a replay cost?")
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args(arguments)
    quiet_collector()
    print(
        f"{'run':<40} {'events':>9} {'a second':>9} {'reading':>8} {'deciding':>8} {'replay':>8} {'times as fast':>13}"
    )
    for path in chosen.logs:
        for number, recording in enumerate(open_log(path).recordings, start=1):
            cost = cost_of(recording, chosen.rounds)
            if cost is None:
                print(f"{f'{path}, run {number}':<40} has no event")
                continue
            print(
                f"{f'{path}, run {number}':<40} {cost.events:>9,} {cost.density:>9,.1f} "
                f"{cost.reading:>5.1f} us {cost.deciding:>5.1f} us {cost.replay:>5.1f} us {cost.times:>13,.0f}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
