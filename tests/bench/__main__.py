"""make bench: how fast is it? Ratios against a floor measured in the same run, since machines differ and are noisy.

    python -m tests.bench [--quick] [--json FILE] [--check]

Three processes: an API server that costs next to nothing, the extender with 5,000 nodes and 20,000 running pods, and
this one, which calls it as kube-scheduler does. What is measured and how: docs/performance.md. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from rich.console import Console

from tests.bench.client import Process
from tests.bench.measures import Bench
from tests.bench.report import aims, as_json, show
from tests.bench.world import FULL, QUICK, Scale


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="How fast is it?")
    parser.add_argument("--quick", action="store_true", help="a small cluster and few calls: does the bench work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single measurement to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    chosen = parser.parse_args(arguments)
    return run(QUICK if chosen.quick else FULL, chosen.json, check=chosen.check)


def run(scale: Scale, file: Path | None, *, check: bool) -> int:
    sys.setswitchinterval(0.0005)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    with (
        Process("tests.bench.cluster", str(scale.nodes)) as api_server,
        Process("tests.bench.server", api_server.url) as extender,
        console.status("starting") as status,
        closing(Bench(extender.url, api_server.url, scale, status.update)) as bench,
    ):
        filters, decisions = bench.run()
        rates = bench.rates()
    show(console, filters, decisions, rates)
    if file is not None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(filters, decisions, rates)), indent=2))
    return 1 if check and not all(aim.met for aim in aims(filters, decisions)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
