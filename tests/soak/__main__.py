"""`python -m tests.soak --minutes 10`: the simulation, seed after seed, beside the servers on real sockets.

First every pair of operation and fault by itself, then mixtures until the time is up; meanwhile another process tries
every pair on real sockets (`python -m tests.faults`). `make soak` runs it. A failure prints the line that runs exactly
the same again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

from tests.faults.report import grid, summary
from tests.faults.table import simulated
from tests.soak.runs import Result, run, run_pair
from tests.soak.wire import CALLS, Name, every_pair

STEPS = 2000
#: Steps of a run in which one pair is tried alone.
PAIR_STEPS = 250


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seed", type=int, help="this one run only")
    parser.add_argument(
        "--pair", type=_pair, help="with --seed: nothing else goes wrong, such as 'bind: dropped after'"
    )
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of a run (default {STEPS})")
    parser.add_argument("--no-sockets", action="store_true", help="the simulation only")
    given = parser.parse_args()
    if given.seed is not None:
        return _one(given.seed, given.steps, given.pair)
    sockets = None if given.no_sockets else _start_sockets(given.first)
    try:
        status = _soak(given.minutes * 60, given.first, given.steps)
        return status or (_finish_sockets(sockets) if sockets else 0)
    finally:
        if sockets and sockets.poll() is None:
            sockets.kill()
            sockets.wait()


def _pair(text: str) -> Name:
    name = tuple(text.split(": ", 1))
    if name not in every_pair():
        raise ValueError(f"{text!r} is no pair of operation and fault")
    return name[0], name[1]


def _one(seed: int, steps: int, pair: Name | None) -> int:
    result = _tried(seed, lambda: [run_pair(pair, seed, steps)[-1] if pair else run(seed, steps)], pair, steps)
    if result is None:
        return 1
    print(f"seed {seed} survived; everything that was heard and said has the digest {result[-1].digest}")
    return _show(result)


def _soak(seconds: float, first: int, steps: int) -> int:
    """Every pair of operation and fault by itself, then mixtures until the time is up."""
    end, results, seed = time.monotonic() + seconds, [], first
    for pair in every_pair():
        found = _tried(seed, lambda pair=pair, seed=seed: run_pair(pair, seed, PAIR_STEPS), pair, PAIR_STEPS)
        if found is None:
            return 1
        results += found
        seed += len(found)
    print(f"Simulation: each of {len(every_pair())} pairs of operation and fault survived by itself", flush=True)
    while time.monotonic() < end:
        found = _tried(seed, lambda seed=seed: [run(seed, steps)], None, steps)
        if found is None:
            return 1
        results += found
        seed += 1
    return _show(results)


def _tried(seed: int, do: Callable[[], list[Result]], pair: Name | None, steps: int) -> list[Result] | None:
    try:
        return do()
    except Exception:
        traceback.print_exc()
        alone = f" --pair '{': '.join(pair)}'" if pair else ""
        print(f"\nFAILED: seed {seed}", file=sys.stderr)
        print(f"Again:  python -m tests.soak --seed {seed} --steps {steps}{alone}", file=sys.stderr)
        return None


def _show(results: list[Result]) -> int:
    faults: Counter[Name] = sum((result.faults for result in results), Counter())
    happened: Counter[str] = sum((result.happened for result in results), Counter())
    print("\nSIMULATION: how often each fault was injected and survived (. makes no sense)\n")
    print(grid(faults))
    for call, kinds in CALLS.items():
        print(f"\n  kube-scheduler's {call}: " + ", ".join(f"{kind} {faults[call, kind]}" for kind in kinds), end="")
    print(f"\n\n  {', '.join(f'{number} times {what}' for what, number in sorted(happened.items()))}")
    print(
        f"\n{len(results)} runs, {sum(r.steps for r in results)} steps, {sum(r.bound for r in results)} pods bound; "
        f"{summary(faults)} of {len(simulated()) + sum(map(len, CALLS.values()))}",
        flush=True,
    )
    return 0


def _start_sockets(seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults", "--seed", str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _finish_sockets(sockets: subprocess.Popen[bytes]) -> int:
    said, _ = sockets.communicate()
    print(f"\n{said.decode(errors='replace').rstrip()}")
    return sockets.returncode


if __name__ == "__main__":
    sys.exit(main())
