"""make bench-claims: how fast are claims, beside the source's policy and a client that lists and patches?

    python -m tests.bench.claims [--alone | --simulated | --served | --real] [--quick] [--json FILE] [--check]

The engine by itself (alone.py), and a simulated cluster (simulation.py) in which the real engine, a faithful model of
the source's policy and a naive client (policies.py) have the same load with the same seed; the server as a process,
over HTTP (served.py); and the same on the real control plane of `make e2e` (real.py), if that is built. On two cores
about ten minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench.claims import real
from tests.bench.claims.alone import STAGES, Life
from tests.bench.claims.alone import measure as measure_alone
from tests.bench.claims.policies import Naive, Source, Waggle
from tests.bench.claims.served import Beside, Rate, Start, beside, rates, start
from tests.bench.claims.simulation import Result, Setting, simulate
from tests.bench.report import Aim, p99, show_aims

#: The aims of the engine alone, of the steady stream, of the busy pool, and of several servers.
LEAST_RATE, MOST_BEYOND_MS, MOST_BUSY_MS, MOST_CONFLICTS = 30_000.0, 50.0, 100.0, 0.02

STREAM = Setting("1,000 claims/s, 300 pods", 300, 60.0, 0.1, rate=1000.0, lag=0.02, spread=0.0)
#: 190 clients, each of which has one of 200 pods for 2.85 s, releases it, and asks at once for the next.
BUSY = Setting("65 claims/s, 95 % busy", 200, 60.0, 2.85, clients=190)
OPEN = Setting("65 claims/s, 300 pods", 300, 60.0, 2.0, rate=65.0)
REPLICAS = replace(OPEN, name="three servers, 65 claims/s, 300 pods", replicas=3)
#: Without an aim: where ten pods are left for three servers, they meet at the same ones.
BUSY_REPLICAS = replace(BUSY, name="three servers, 65 claims/s, 95 % busy", replicas=3)
#: Which policies have which load. The source keeps a pod for 2 s after each claim: far too long for the stream.
RUNS: tuple[tuple[Setting, dict[str, Callable[..., Any]]], ...] = (
    (STREAM, {"waggle": Waggle, "naive": Naive}),
    (BUSY, {"waggle": Waggle, "source": Source, "naive": Naive}),
    (OPEN, {"waggle": Waggle, "source": Source, "naive": Naive}),
    (REPLICAS, {"waggle": Waggle, "naive": Naive}),
    (BUSY_REPLICAS, {"waggle": Waggle, "naive": Naive}),
)
#: The aims of the server as a process: seconds until it serves 5,000 pods, MiB then, and ms by which the p99 of /filter
#: grows beside 300 claims/s. The rate beside the naive client has an aim on a real control plane only.
READY_SECONDS, MOST_MIB, MOST_GROWTH_MS = 3.0, 250.0, 3.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.claims", description="How fast are claims?")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--alone", action="store_true", help="only the engine by itself")
    part.add_argument("--simulated", action="store_true", help="only the simulated cluster")
    part.add_argument("--served", action="store_true", help="only the server as a process")
    part.add_argument("--real", action="store_true", help="only the server on a real control plane")
    parser.add_argument("--quick", action="store_true", help="few claims: does the bench work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    chosen = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    lives: list[Life] = []
    results: list[Result] = []
    served: Served | None = None
    on_real: list[real.Real] = []
    everything = not (chosen.alone or chosen.simulated or chosen.served or chosen.real)
    with console.status("starting") as status:
        if chosen.alone or everything:
            for waiting in (0, 256):
                status.update(f"the engine alone, {waiting} in line")
                claims, rounds = (200, 2) if chosen.quick else (6000, 9)
                lives.append(measure_alone(claims=claims, rounds=rounds, waiting=waiting))
        for setting, policies in RUNS if chosen.simulated or everything else ():
            load = replace(setting, seconds=0.5, wait=2.0) if chosen.quick else setting
            for name, make in policies.items():
                status.update(f"{setting.name}: {name}")
                results.append(simulate(name, load, make))
        if chosen.served or everything:
            served = measure_served(status.update, quick=chosen.quick)
        if chosen.real or everything:
            on_real = measure_real(console, status.update, quick=chosen.quick)
    found = [*aims(lives, results), *(served_aims(served) if served is not None else ()), *real.aims(on_real)]
    show(console, lives, results)
    if served is not None:
        show_served(console, served)
    if on_real:
        real.show(console, on_real)
    console.print(f"load average {os.getloadavg()[0]:.1f} at the end, of this bench and of all else", highlight=False)
    show_aims(console, found)
    if chosen.json is not None:
        raw = {**as_json(lives, results, found), "real": real.as_json(on_real)}
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=2))
    return 1 if chosen.check and not all(aim.met for aim in found) else 0


@dataclass(frozen=True)
class Served:
    """The figures of the server as a process."""

    start: Start
    rates: list[Rate]
    beside: Beside


def measure_real(console: Console, say: Callable[[str], None], *, quick: bool) -> list[real.Real]:
    """Nothing where the control plane is not built: that takes a quarter of an hour, and Go."""
    if missing := real.missing():
        text = f"no figures of a real control plane: {', '.join(missing)} not built (python -m tests.e2e.build)"
        console.print(text, highlight=False)
        return []
    return real.measure(real.QUICK if quick else real.FULL, say)


def measure_served(say: Callable[[str], None], *, quick: bool) -> Served:
    """All of them, one after the other."""
    pods, seconds = (200, 2.0) if quick else (5000, 10.0)
    return Served(start(pods, 10, say), rates(40 if quick else 200, seconds, say), beside(300.0, seconds, say))


def served_aims(found: Served) -> list[Aim]:
    """What these figures are held against."""
    ready, growth = found.start, found.beside.growth
    name = f"{ready.pods:,} idle pods, {ready.pools} pools"
    return [
        Aim(f"{name}: ready, s", ready.seconds, f"at most {READY_SECONDS:g}", ready.seconds <= READY_SECONDS),
        Aim(f"{name}: memory, MiB", ready.mebibytes, f"at most {MOST_MIB:g}", ready.mebibytes <= MOST_MIB),
        Aim("/filter p99 beside claims, growth, ms", growth, f"at most {MOST_GROWTH_MS:g}", growth <= MOST_GROWTH_MS),
    ]


def show_served(console: Console, found: Served) -> None:
    """The table of the server as a process."""
    title = "the server as a process, beside an embedded API server"
    table = Table("client", title=title, title_justify="left", caption="ms; each claim is released at once")
    for column in ("claims/s", "p50", "p99", "API requests a claim", "conflicts"):
        table.add_column(column, justify="right")
    for rate in found.rates:
        requests = rate.requests / max(1, len(rate.times))
        cells = (f"{rate.per_second:,.0f}", f"{median(rate.times):.1f}", f"{p99(rate.times):.1f}", f"{requests:.2f}")
        table.add_row(rate.name, *cells, f"{rate.conflicts:,}")
    console.print(table)
    near = found.beside
    console.print(
        f"/filter alone: p50 {median(near.quiet):.2f}, p99 {p99(near.quiet):.2f} ms; beside "
        f"{near.claims_per_second:.0f} claims/s: p50 {median(near.busy):.2f}, p99 {p99(near.busy):.2f} ms",
        highlight=False,
    )


def aims(lives: Sequence[Life], results: Sequence[Result]) -> list[Aim]:
    """What these figures are held against. The best round counts for the engine alone: others share the cores."""
    found = []
    for life in lives:
        if not life.waiting:
            rate = max(life.rates)
            found.append(
                Aim("engine alone, claims/s of CPU, best round", rate, f"at least {LEAST_RATE:g}", rate >= LEAST_RATE)
            )
    for each in results:
        if each.policy != "waggle":
            continue
        name, p99 = each.setting.name, each.quantile(99)
        if name == STREAM.name:
            beyond = p99 - each.setting.round_trip * 1e3
            found.append(
                Aim(
                    f"{name}: p99 beyond the round trip, ms",
                    beyond,
                    f"at most {MOST_BEYOND_MS:g}",
                    beyond <= MOST_BEYOND_MS,
                )
            )
        if name == BUSY.name:
            found.append(Aim(f"{name}: p99, ms", p99, f"at most {MOST_BUSY_MS:g}", p99 <= MOST_BUSY_MS))
        if name == REPLICAS.name:
            share = each.conflicts / each.claimed
            found.append(
                Aim(f"{name}: conflicts per claim", share, f"at most {MOST_CONFLICTS:g}", share <= MOST_CONFLICTS)
            )
        wrong = each.doubles + each.failed
        found.append(Aim(f"{name}: pods given twice, and claims that failed", wrong, "0", wrong == 0))
    return found


def show(console: Console, lives: Sequence[Life], results: Sequence[Result]) -> None:
    """The tables."""
    table = Table("in line", title="the engine alone", title_justify="left", caption="microseconds: of the best round")
    for title in ("claims/s best", "median", "calls a claim", "of built-ins", *(f"{each}, us" for each in STAGES)):
        table.add_column(title, justify="right")
    for life in lives:
        best = max(life.rounds, key=lambda each: 1.0 / sum(each.values()))
        values = (max(life.rates), median(life.rates), life.calls, life.builtin_calls)
        stages = (f"{best[stage] * 1e6:.1f}" for stage in STAGES)
        table.add_row(str(life.waiting), *(f"{value:,.0f}" for value in values), *stages)
    if lives:
        console.print(table)
    table = Table(
        "load", "policy", title="a simulated cluster", title_justify="left", caption="ms, round trip included"
    )
    for title in ("claims", "failed", "p50", "p90", "p99", "conflicts", "API calls a claim", "CPU us a claim"):
        table.add_column(title, justify="right")
    before = ""
    for each in results:
        if before not in ("", each.setting.name):
            table.add_section()
        calls = (each.writes + each.reads) / max(1, each.claimed)
        cells = (*(f"{each.quantile(percent):,.0f}" for percent in (50, 90, 99)), f"{each.conflicts:,}", f"{calls:.2f}")
        cpu = f"{each.cpu / max(1, each.claimed) * 1e6:.0f}" if each.cpu else ""
        shown = each.setting.name if each.setting.name != before else ""
        table.add_row(shown, each.policy, f"{each.claimed:,}", f"{each.failed:,}", *cells, cpu)
        before = each.setting.name
    if results:
        console.print(table)


def as_json(lives: Sequence[Life], results: Sequence[Result], found: Sequence[Aim]) -> dict[str, Any]:
    """Every figure, and the aims."""
    return {
        "alone": [{"waiting": life.waiting, "rounds": life.rounds, "calls": life.calls} for life in lives],
        "simulated": [
            {
                "load": each.setting.name,
                "policy": each.policy,
                "claimed": each.claimed,
                "failed": each.failed,
                "doubles": each.doubles,
                "ms": {f"p{percent}": each.quantile(percent) for percent in (50, 90, 99)},
                "conflicts": each.conflicts,
                "writes": each.writes,
                "reads": each.reads,
                "cpu_seconds": each.cpu,
            }
            for each in results
        ],
        "aims": [{"what": aim.what, "found": aim.found, "wanted": aim.wanted, "met": aim.met} for aim in found],
    }


if __name__ == "__main__":
    raise SystemExit(main())
