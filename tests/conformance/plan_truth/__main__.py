"""`python -m tests.conformance.plan_truth --world claims --first 1000 --states 50`: states of one world, one after the
other. Prints what is live otherwise than planned; the exit status is 1 if anything is."""

from __future__ import annotations

import argparse
import sys
import time

from tests.conformance.plan_truth.worlds import WORLDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.plan_truth", description=__doc__)
    parser.add_argument("--world", choices=tuple(WORLDS), required=True, help="which kind of states")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--states", type=int, default=20, help="how many states (default 20)")
    given = parser.parse_args()
    begun, wrong = time.monotonic(), 0
    for seed in range(given.first, given.first + given.states):
        found = WORLDS[given.world](seed)
        wrong += bool(found)
        for text in found:
            print(f"seed {seed}: {text}", flush=True)
    print(f"{given.world}: {given.states} states, {wrong} wrong, {time.monotonic() - begun:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
