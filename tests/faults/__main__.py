"""`python -m tests.faults`: Waggle, the API server and kube-scheduler on real sockets, through every fault there is.

Prints what was injected and survived. A failure names the pair, and the line that tries it again.
"""

from __future__ import annotations

import argparse
import logging
import sys
import traceback

import structlog

from tests.faults.matrix import shuffled, try_all
from tests.faults.report import grid, left_out, summary
from tests.faults.table import Pair, pair_named, pairs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=1, help="order of the pairs, and how often each strikes (default 1)"
    )
    parser.add_argument("--pair", type=pair_named, help="this one only, such as 'bind: dropped after'")
    parser.add_argument("--list", action="store_true", help="show the pairs, and those that make no sense with why")
    parser.add_argument("--verbose", action="store_true", help="show Waggle's log, and each pair as it is tried")
    given = parser.parse_args()
    if given.list:
        print("\n".join(map(str, pairs())), "\n\nPairs that make no sense:", left_out(), sep="\n")
        return 0
    if not given.verbose:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return run(given.seed, given.pair, verbose=given.verbose)


def run(seed: int, only: Pair | None, *, verbose: bool) -> int:
    last: list[Pair] = []

    def tell(pair: Pair) -> None:
        last.append(pair)
        if verbose:
            print(f"-- {pair}", flush=True)

    try:
        survived = try_all([only] if only else shuffled(seed), seed, tell=tell)
    except AssertionError:
        traceback.print_exc()
        again = (
            f'python -m tests.faults --seed {seed} --pair "{last[-1]}"' if last else f"python -m tests.faults {seed=}"
        )
        print(f"\nFAILED: {last[-1] if last else 'start'}\nAgain:  {again}", file=sys.stderr)
        return 1
    print("FAULTS ON REAL SOCKETS: how often each was injected and survived (. makes no sense: see --list)\n")
    print(grid(survived))
    print(f"\n{summary(survived)} of {len(pairs())}; seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
