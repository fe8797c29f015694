"""make bench-vpods: how fast are decisions about vpods, beside what Knative's scheduler was recorded to take?

    python -m tests.bench.vpods [--vpods N ...] [--rounds N] [--alone] [--quick] [--json FILE] [--check]

The engine on the original's workload (workload.py): what it decides must have the original's digest with the policy
`head`. Then how many vreplicas it moves, how long it takes to start, and how long the whole server does. CPU time, the
best of several rounds: what else the machine does only ever adds. What is measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from tests.bench.vpods import decisions, moves, served, start
from tests.bench.vpods.figures import Figures, aims, as_json, show
from tests.bench.vpods.workload import Size, recorded

POLICIES = ("head", "balanced")
_ROUNDS = 3
QUICK = Size(10, 10, 20)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.vpods", description="How fast are vpods?")
    numbers = sorted({size.vpods for size in recorded()})
    parser.add_argument(
        "--vpods", type=int, nargs="+", choices=numbers, default=numbers, help="only with so many vpods"
    )
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="the best of so many counts")
    parser.add_argument("--alone", action="store_true", help="only the engine, no server")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes: does the bench work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    chosen = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    with console.status("starting") as status:
        figures = _measure(chosen, status.update)
    show(console, figures)
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(figures)), indent=2))
    return 1 if chosen.check and not all(aim.met for aim in aims(figures)) else 0


def _measure(chosen: argparse.Namespace, say: Callable[[str], None]) -> Figures:
    sizes, rounds = [size for size in recorded() if size.vpods in chosen.vpods], chosen.rounds
    if chosen.quick:
        sizes, rounds = [QUICK], 1
    found = []
    for size in sizes:
        for policy in POLICIES:
            say(f"{size}: {policy}")
            found.append(decisions.measure(size, policy, rounds=rounds))
    say("moves")
    few = {"vpods": 20, "pods": 6, "most": 20} if chosen.quick else {}
    moved = [moves.measure(policy, **few) for policy in POLICIES]
    say("start")
    small = {"vpods": 100, "pods": 10} if chosen.quick else {}
    started = start.measure(**small, rounds=rounds)
    return Figures(found, moved, started, None if chosen.alone else served.measure(say, **small))


if __name__ == "__main__":
    raise SystemExit(main())
