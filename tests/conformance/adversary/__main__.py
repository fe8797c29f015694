"""`python -m tests.conformance.adversary --seconds 60`: the adversary, as long as you like.

A failure is printed with the fewest steps that lead to it; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from tests.conformance.adversary.search import attempt, shortened, steps_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.adversary", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long to search (default 60)")
    parser.add_argument("--length", type=int, default=150, help="the steps of one run (default 150)")
    parser.add_argument("--shorten", type=float, default=40, help="seconds to shorten a failure (default 40)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="the first seed")
    given = parser.parse_args()
    until, seed, steps = time.monotonic() + given.seconds, given.seed, 0
    did: Counter[str] = Counter()
    found: Counter[str] = Counter()
    while time.monotonic() < until:
        outcome = attempt(seed, steps_of(seed, given.length))
        steps += outcome.steps
        did += outcome.did
        if outcome.error:
            found[outcome.where] += 1
            print(f"seed {seed}, step {outcome.steps}, at {outcome.where}: {outcome.error[:600]}", flush=True)
            if found[outcome.where] == 1 and given.shorten:
                _show(seed, shortened(seed, steps_of(seed, given.length), given.shorten))
        seed += 1
    print(f"{steps} steps, {dict(did)}, seeds {given.seed} to {seed - 1}: {dict(found) or 'every promise was kept'}")
    return 1 if found else 0


def _show(seed: int, steps: list[int]) -> None:
    outcome = attempt(seed, steps)
    print(f"  attempt({seed}, {steps})\n  " + "\n  ".join(outcome.trace) + f"\n  {outcome.error[:3000]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
