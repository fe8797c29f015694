"""make bench: how fast is it? Ratios against a floor measured in the same run, since machines differ and are noisy.

    python -m tests.bench [--verbs | --io] [--quick] [--json FILE] [--check]

Three processes: an API server that costs next to nothing, the extender with 5,000 nodes and 20,000 running pods, and
this one, which calls it as kube-scheduler does. What is measured and how: docs/performance.md. Each of its two
parts, the verbs and the I/O layers, takes about two minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from tests.bench.client import Process
from tests.bench.io_layers import measure
from tests.bench.measures import Bench
from tests.bench.report import aims, as_json, io_as_json, show, show_io
from tests.bench.world import FULL, IO_FULL, IO_QUICK, QUICK, IoScale, Scale


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="How fast is it?")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--verbs", action="store_true", help="only what kube-scheduler's calls cost")
    part.add_argument("--io", action="store_true", help="only start-up, watch events, relists, binds, the stand-in")
    parser.add_argument("--quick", action="store_true", help="a small cluster and few calls: does the bench work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single measurement to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    chosen = parser.parse_args(arguments)
    sys.setswitchinterval(0.0005)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    found: dict[str, Any] = {}
    met = True
    if not chosen.io:
        met &= verbs(QUICK if chosen.quick else FULL, console, found)
    if not chosen.verbs:
        met &= io_layers(IO_QUICK if chosen.quick else IO_FULL, console, found)
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2))
    return 1 if chosen.check and not met else 0


def verbs(scale: Scale, console: Console, found: dict[str, Any]) -> bool:
    """The calls of kube-scheduler. Adds what was measured to `found`; returns whether all aims are met."""
    with (
        Process("tests.bench.cluster", str(scale.nodes)) as api_server,
        Process("tests.bench.server", api_server.url) as extender,
        console.status("starting") as status,
        closing(Bench(extender.url, api_server.url, scale, status.update)) as bench,
    ):
        filters, decisions = bench.run()
        rates = bench.rates()
    show(console, filters, decisions, rates)
    found |= as_json(filters, decisions, rates)
    return all(aim.met for aim in aims(filters, decisions))


def io_layers(scale: IoScale, console: Console, found: dict[str, Any]) -> bool:
    """What surrounds them. Adds what was measured to `found`; returns whether all aims are met."""
    with console.status("starting") as status:
        figures = measure(scale, status.update)
    show_io(console, figures)
    found["io"] = io_as_json(figures)
    return all(each.aim.met for each in figures if each.aim is not None)


if __name__ == "__main__":
    raise SystemExit(main())
