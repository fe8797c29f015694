"""Which of two versions decides more pods a second? Both run at once, and take turns of a second.

    python -m tests.bench.turns [--rounds 14] [--offered 5000] TREE TREE...

A TREE is a checkout with its own `tests/bench/server.py`; client and API server are those of this one. On a machine
whose speed changes within minutes, two runs one after the other say nothing; the ratios of neighbouring turns do. CPU
is that of the extender's process, all threads. The first tree is what the others are compared with.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack, chdir, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from tests.bench.client import Decider, Process
from tests.bench.measures import Bench
from tests.bench.world import FULL, Requests

_PODS = 600


@dataclass
class Version:
    """A tree's extender, and what its turns gave: decisions a second, CPU milliseconds and context switches of one."""

    name: str
    bench: Bench
    url: str
    pid: int
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    switches: list[float] = field(default_factory=list)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.turns", description="Which version decides more?")
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--offered", type=int, default=5000, help="NodeNames of each request")
    chosen = parser.parse_args()
    offer = Requests(FULL, chosen.offered)
    with ExitStack() as stack:
        versions = [_started(stack, tree.resolve()) for tree in chosen.trees]
        for number in range(-1, chosen.rounds):
            for version in versions[:: 1 if number % 2 else -1]:
                _turn(version, offer, counts=number >= 0)
    _show(versions)


def _started(stack: ExitStack, tree: Path) -> Version:
    api_server = stack.enter_context(Process("tests.bench.cluster", str(FULL.nodes)))
    with chdir(tree), patch.dict(os.environ, PYTHONPATH=str(tree)):
        extender = stack.enter_context(Process("tests.bench.server", api_server.url))
    bench = stack.enter_context(closing(Bench(extender.url, api_server.url, FULL, lambda _: None)))
    return Version(tree.name, bench, extender.url, extender.pid)


def _turn(version: Version, offer: Requests, *, counts: bool) -> None:
    with version.bench.pods(_PODS) as names:
        bodies = [offer.body(name) for name in names]
        time.sleep(0.25)  # the extender has seen them
        with closing(Decider(version.url)) as decider:
            cpu, switches, began = *_used(version.pid), time.monotonic()
            decider.decide(names, bodies)
            seconds = time.monotonic() - began
        if counts:
            now_cpu, now_switches = _used(version.pid)
            version.rates.append(_PODS / seconds)
            version.cpu.append((now_cpu - cpu) * 1e3 / _PODS)
            version.switches.append((now_switches - switches) / _PODS)


def _used(pid: int) -> tuple[float, int]:
    """CPU seconds and context switches of all threads of a process (Linux)."""
    cpu = switches = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        cpu += int((thread / "schedstat").read_text().split()[0])
        lines = (thread / "status").read_text().splitlines()
        switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return cpu / 1e9, switches


def _show(versions: list[Version]) -> None:
    columns = (
        "version",
        "a second: median",
        "most",
        "over the first",
        "quartiles",
        "CPU ms",
        "least",
        "over the first",
    )
    table = Table(*columns, "context switches", title="filter + bind decisions", title_justify="left")
    first = versions[0]
    for each in versions:
        ratios = [mine / theirs for mine, theirs in zip(each.rates, first.rates, strict=True)]
        low, _, high = quantiles(ratios, n=4)
        cpu = median(mine / theirs for mine, theirs in zip(each.cpu, first.cpu, strict=True))
        table.add_row(
            *(each.name, f"{median(each.rates):.0f}", f"{max(each.rates):.0f}"),
            *(f"{median(ratios):.2f}", f"{low:.2f} to {high:.2f}"),
            *(f"{median(each.cpu):.2f}", f"{min(each.cpu):.2f}", f"{cpu:.2f}", f"{median(each.switches):.1f}"),
        )
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(table)
    console.print(f"load average {os.getloadavg()[0]:.1f}", highlight=False)


if __name__ == "__main__":
    main()
