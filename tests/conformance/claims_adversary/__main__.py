"""`python -m tests.conformance.claims_adversary --seconds 60`: the adversary, as long as you like."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from tests.conformance.claims_adversary.search import attempt, attempt_calm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.claims_adversary", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long to search (default 60)")
    parser.add_argument("--rounds", type=int, default=4, help="storms of one world (default 4)")
    parser.add_argument("--steps", type=int, default=60, help="steps of one storm (default 60)")
    parser.add_argument("--processes", action="store_true", help="servers are processes, and killed")
    parser.add_argument("--no-faults", action="store_true", help="the API server does all as it should")
    parser.add_argument("--calm", action="store_true", help="no storms: one thing after the other, of one server")
    parser.add_argument("--trace", action="store_true", help="print what was done")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="the first seed")
    given = parser.parse_args()
    until, seed, failed = time.monotonic() + given.seconds, given.seed, 0
    did: Counter[str] = Counter()
    took: list[float] = []
    woken: list[float] = []
    while time.monotonic() < until:
        if given.calm:
            outcome = attempt_calm(seed, given.steps)
            took += outcome.took
            woken += outcome.woken
        else:
            outcome = attempt(seed, given.rounds, given.steps, processes=given.processes, faults=not given.no_faults)
        did += outcome.did
        if outcome.found:
            failed += 1
            print(f"seed {seed}, round {outcome.rounds}: {outcome.draw}")
            for text in outcome.found[:12]:
                print("   ", text[:1500])
            if given.trace:
                print("\n".join(outcome.trace))
            sys.stdout.flush()
        seed += 1
    print(f"seeds {given.seed} to {seed - 1}, {sum(did.values())} steps and answers: {dict(did)}; {failed} failed")
    for name, seconds in (("claims with idle pods", took), ("pods that somebody waited for", woken)):
        if seconds:
            at = sorted(seconds)
            print(f"{name}: {len(at)}, p50 {at[len(at) // 2] * 1e3:.1f} ms, p99 {at[len(at) * 99 // 100] * 1e3:.1f} ms")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
