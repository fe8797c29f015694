"""make bench-e2e: what does Waggle cost a real kube-scheduler? Ratios within one run, as machines differ and are noisy.

    python -m tests.bench.e2e [--sizes N,...] [--rounds N] [--quick] [--json FILE] [--check]

etcd, kube-apiserver and kube-scheduler are the real programs, built if they are not there yet. What is measured and
how: docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console

from tests.bench.e2e.figures import Found, aims, as_json, show
from tests.bench.e2e.run import FULL, QUICK, Bench, Scale
from tests.e2e.build import BuildError, build
from tests.e2e.cluster import ControlPlane
from tests.e2e.processes import ProcessError
from tests.e2e.runs import run_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.e2e", description="What does Waggle cost a real kube-scheduler?"
    )
    parser.add_argument("--sizes", metavar="N,...", help=f"numbers of nodes; {FULL.sizes} unless given")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"of each variant; {FULL.rounds} unless given")
    parser.add_argument("--quick", action="store_true", help="a small cluster and few pods: does the bench work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single round to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    chosen = parser.parse_args(arguments)
    scale = QUICK if chosen.quick else FULL
    if chosen.sizes:
        scale = replace(scale, sizes=tuple(int(size) for size in chosen.sizes.split(",")))
    if chosen.rounds:
        scale = replace(scale, rounds=chosen.rounds)
    try:
        found = measure(scale, Console(width=None if sys.stdout.isatty() else 132))
    except (BuildError, ProcessError) as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(found)), indent=2))
    return 1 if chosen.check and not all(aim.met for aim in aims(found)) else 0


def measure(scale: Scale, console: Console) -> Found:
    """On a control plane of its own. Raises BuildError or ProcessError if that cannot be had."""
    programs = build()
    cores, load = os.cpu_count(), os.getloadavg()[0]
    console.print(f"{cores} cores for all processes, load average {load:.1f} before the start", highlight=False)
    with (
        run_folder() as folder,
        ControlPlane(programs, folder, bare=True) as plane,
        console.status("starting") as status,
        closing(Bench(plane, programs, status.update)) as bench,
    ):
        found = bench.run(scale)
    show(console, found)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
