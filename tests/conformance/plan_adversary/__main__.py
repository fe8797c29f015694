"""`python -m tests.conformance.plan_adversary --seconds 60`: the adversary, as long as you like."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.conformance.plan_adversary import programs, worlds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.plan_adversary", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long to search (default 60)")
    parser.add_argument("--only", choices=("programs", "worlds"), help="only the dependency engine, or only plans")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="the first seed")
    given = parser.parse_args()
    until, seed, failed = time.monotonic() + given.seconds, given.seed, 0
    while time.monotonic() < until:
        found = programs.faults(seed) if given.only != "worlds" else []
        found += worlds.faults(seed) if given.only != "programs" else []
        failed += bool(found)
        for text in found[:5]:
            print(text, flush=True)
        seed += 1
    print(f"seeds {given.seed} to {seed - 1}; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
