"""`python -m tests.conformance.vpods_adversary --seed 7 --storms 3`: the adversary, as long as you like."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter

from tests.conformance.vpods_adversary.search import attempt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.vpods_adversary", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many worlds (default 1)")
    parser.add_argument("--storms", type=int, default=3, help="storms of one world (default 3)")
    parser.add_argument("--steps", type=int, default=60, help="steps of one storm (default 60)")
    parser.add_argument("--no-faults", action="store_true", help="the API server does all as it should, no server dies")
    parser.add_argument("--trace", action="store_true", help="print what was done")
    given = parser.parse_args()
    failed = 0
    did: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.seeds):
        outcome = attempt(seed, given.storms, given.steps, faults=not given.no_faults)
        did += outcome.did
        print(f"seed {seed}: {'FAILED' if outcome.found else 'holds'}, {outcome.storms} storms", flush=True)
        if outcome.found:
            failed += 1
            print(outcome.draw)
            for text in outcome.found[:12]:
                print("   ", text[:2000])
            if given.trace:
                print("\n".join(outcome.trace))
            sys.stdout.flush()
    print(f"seeds {given.seed} to {given.seed + given.seeds - 1}: {dict(did)}; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
