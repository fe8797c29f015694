"""`python -m tests.soak --minutes 10`: the simulation, seed after seed, and what it survived. `make soak` runs it.

A failure prints the seed and the line that runs exactly the same again.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.soak.links import pairs
from tests.soak.world import Result, run

STEPS = 2000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seed", type=int, help="this one run only")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of a run (default {STEPS})")
    given = parser.parse_args()
    if given.seed is not None:
        return _show([run(given.seed, given.steps)])
    return _soak(given.minutes * 60, given.first, given.steps)


def _soak(seconds: float, first: int, steps: int) -> int:
    """Every pair of operation and fault by itself, then mixtures until the time is up."""
    end, results, seed = time.monotonic() + seconds, [], first
    for pair in pairs():
        results.append(run(seed, steps // 4, rate=0.5, only=pair))
        seed += 1
    print(f"every one of {len(pairs())} pairs of operation and fault survived by itself", flush=True)
    while time.monotonic() < end:
        try:
            results.append(run(seed, steps))
        except Exception:
            traceback.print_exc()
            print(f"seed {seed} failed; again: python -m tests.soak --seed {seed} --steps {steps}", file=sys.stderr)
            return 1
        seed += 1
    return _show(results)


def _show(results: list[Result]) -> int:
    faults: Counter[str] = sum((result.faults for result in results), Counter())
    for name, number in sorted(faults.items()):
        print(f"  {number:>8}  {name}")
    print(
        f"{len(results)} runs, {sum(r.steps for r in results)} steps, {sum(r.bound for r in results)} pods bound: "
        f"{sum(faults.values())} faults and {sum(r.crashes for r in results)} crashes injected, all survived"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
