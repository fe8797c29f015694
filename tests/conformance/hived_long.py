"""`python -m tests.conformance.hived_long --steps 100000`: random runs of HiveD, as long as you like; for the nightly.

A failure prints the shortest sequence of calls that Hypothesis finds for it, and the seed that leads there again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.hived_machine import HivedMachine

#: So many runs have one seed.
RUNS = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.hived_long", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="random steps in all (default 100000)")
    parser.add_argument("--length", type=int, default=100, help="the steps of one run at most (default 100)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="the first seed")
    given = parser.parse_args()
    begin, number = time.monotonic(), given.seed
    while HivedMachine.steps < given.steps:
        try:
            _runs(number, given.length)
        except Exception:
            traceback.print_exc()
            again = f"python -m tests.conformance.hived_long --steps 1 --length {given.length} --seed {number}"
            print(f"after {HivedMachine.steps} steps seed {number} failed; again: {again}", file=sys.stderr)
            return 1
        print(f"{HivedMachine.steps} steps, seed {number}", flush=True)
        number += 1
    took = time.monotonic() - begin
    seeds = f"seeds {given.seed} to {number - 1}"
    print(f"{HivedMachine.steps} steps, {HivedMachine.counted}, {seeds}, {took:.0f} s: every promise was kept")
    return 0


def _runs(number: int, length: int) -> None:
    chosen = settings(
        max_examples=RUNS,
        stateful_step_count=length,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(number)(HivedMachine), settings=chosen)


if __name__ == "__main__":
    sys.exit(main())
