"""How large may a cluster be? Start, memory and /filter at growing numbers of pods, up to Kubernetes' own limit.

    python -m tests.bench.limit [--nodes N] [--pods P ...] [--rounds N]

By default 5,000 nodes with 50,000 and with 150,000 pods of 7 KB, which is as many as Kubernetes is made for. Each size
is a run of its own: an API server that costs next to nothing, the extender, and a caller. The larger one needs some
5 GiB of memory, nearly all of it in the API server of the bench, and three minutes. docs/scaling.md has the figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from statistics import median

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench.client import Connection, Process
from tests.bench.measures import Bench
from tests.bench.report import p99
from tests.bench.world import FULL, Requests, Scale

_NODES, _PODS = 5000, (50_000, 150_000)
_ROUNDS = 10
#: Aims at 5,000 nodes and 150,000 pods: seconds, MiB.
READY_SECONDS, MOST_MIB = 20.0, 800.0

Row = tuple[str, float, str]


class _Calls(Bench):
    """Quiet calls of /filter with all nodes offered, in turn with their floors."""

    def rows(self, offer: Requests) -> list[Row]:
        self._round(offer)  # warms up
        rounds = [self._round(offer) for _ in range(self._scale.rounds)]
        found: list[Row] = []
        for kind in ("placed", "refused"):
            calls = [each for taken in rounds for each in taken[kind]]
            floors = [each for taken in rounds for each in taken[f"floor of {kind}"]]
            found += [
                (f"/filter p50, {kind}, {offer.count:,} names", median(calls), "ms"),
                (f"/filter p99, {kind}", p99(calls), "ms"),
                (f"/filter p50 over the floor's, {kind}", median(calls) / median(floors), ""),
            ]
        return found


def measure(scale: Scale, pods: int, say: Callable[[str], None]) -> list[Row]:
    """The figures of one size, as name, value and unit."""
    say(f"making {pods:,} pods")
    with Process("tests.bench.cluster", str(scale.nodes), str(pods)) as api_server:
        say(f"start-up with {pods:,} pods")
        began = time.monotonic()
        with Process("tests.bench.server", api_server.url) as extender:
            rows: list[Row] = [("start-up to ready", time.monotonic() - began, "s")]
            with closing(Connection(extender.url)) as control:
                usage = msgspec.json.decode(control.call("GET", "/usage"))
                rows += [
                    ("its CPU time", usage["cpu_seconds"], "s"),
                    ("largest resident set until then", usage["peak_mib"], "MiB"),
                ]
                say(f"/filter with {pods:,} pods")
                with closing(_Calls(extender.url, api_server.url, scale, say)) as bench:
                    rows += bench.rows(Requests(scale, scale.nodes))
                say(f"a relist of {pods:,} pods")
                rows += _relist(api_server.url, control, pods // 10)
    return rows


def _relist(api_server: str, extender: Connection, changed: int) -> list[Row]:
    """The watch ends with 410, and a tenth of the pods is different in the list that follows."""
    with closing(Connection(api_server)) as control:
        control.call("POST", "/bench/age", b"%d" % changed)
        before = msgspec.json.decode(extender.call("GET", "/usage"))
        began = time.monotonic()
        control.call("POST", "/bench/expire")
        control.call("POST", "/bench/settle")
        seconds = time.monotonic() - began
    after = msgspec.json.decode(extender.call("GET", "/usage"))
    return [
        ("relist, until all is watched again", seconds, "s"),
        ("its CPU time", after["cpu_seconds"] - before["cpu_seconds"], "s"),
        ("largest resident set of all", after["peak_mib"], "MiB"),
        ("resident set at the end", after["resident_mib"], "MiB"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.limit", description="How large may a cluster be?")
    parser.add_argument("--nodes", type=int, default=_NODES)
    parser.add_argument("--pods", type=int, nargs="+", default=list(_PODS))
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of 30 calls each")
    chosen = parser.parse_args(arguments)
    sys.setswitchinterval(0.0005)
    console = Console(width=None if sys.stdout.isatty() else 110)
    scale = replace(FULL, nodes=chosen.nodes, rounds=chosen.rounds)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    with console.status("starting") as status:
        columns = [measure(scale, pods, status.update) for pods in chosen.pods]
    table = Table(f"{chosen.nodes:,} nodes", *(f"{pods:,} pods" for pods in chosen.pods))
    for rows in zip(*columns, strict=True):
        table.add_row(rows[0][0], *(f"{value:.1f} {unit}" for _, value, unit in rows))
    console.print(table)
    console.print(f"aims at 150,000 pods: ready in {READY_SECONDS:g} s, {MOST_MIB:g} MiB", highlight=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
