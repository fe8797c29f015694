"""make bench-plan: what do plans cost, and the engine of dependencies?

    python -m tests.bench.plan [--alone] [--control-plane] [--quick] [--rounds N] [--json FILE] [--check]

CPU seconds, the best of several processes: what else the machine does only ever adds. What is measured:
docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench.plan import fixpoint, gates, placing, served
from tests.bench.report import Aim, p99, show_aims

#: Seconds of CPU time that a plan may take, by scene: where all find a place, and where nothing fits.
_AIMED_AT = {"placed": 5.0, "nothing": 2.0, "refused": 2.0}
#: Runs of a join's hub; seconds of 10,000 nodes with 40,000 edges.
MOST_HUB_RUNS, MOST_DISCOVERED = 3, 1.0
#: Milliseconds by which the p99 of /filter may be longer beside a plan; memory of the plan over the server's.
MOST_ADDED, MOST_MEMORY = 3.0, 2.0
#: Milliseconds for which a plan's copy may hold the engine's lock.
MOST_HELD = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.plan", description="What do plans cost?")
    parser.add_argument("--alone", action="store_true", help="no server")
    parser.add_argument("--control-plane", action="store_true", help="gates on a real control plane, too")
    parser.add_argument("--quick", action="store_true", help="small sizes: does the bench work?")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many processes counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    chosen = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    with console.status("engine of dependencies") as status:
        graphs = fixpoint.all_figures()
        plans = []
        for scene in placing.SCENES:
            status.update(f"plan: {scene}")
            plans.append(placing.measure(scene, quick=chosen.quick, rounds=1 if chosen.quick else chosen.rounds))
        status.update("plans in the server")
        live = None if chosen.alone else served.measure(quick=chosen.quick)
        status.update("gates on a real control plane")
        opened = gates.on_control_plane(gates=20 if chosen.quick else 200) if chosen.control_plane else None
    found = aims(graphs, plans, live, opened)
    _show(console, graphs, plans, live)
    if opened is not None:
        console.print(opened.text(), highlight=False)
    show_aims(console, found)
    if chosen.json is not None:
        chosen.json.write_bytes(
            msgspec.json.format(msgspec.json.encode(_as_json(graphs, plans, live, opened)), indent=2)
        )
    return 1 if chosen.check and not all(aim.met for aim in found) else 0


def aims(
    graphs: Sequence[fixpoint.Figure],
    plans: Sequence[placing.Figure],
    live: served.Served | None = None,
    opened: gates.GateFigures | None = None,
) -> list[Aim]:
    """What the figures are held against."""
    found = []
    for graph in graphs:
        if "join" in graph.shape:
            runs = graph.hub_runs
            found.append(
                Aim(f"{graph.shape}: runs of the hub", runs, f"at most {MOST_HUB_RUNS}", runs <= MOST_HUB_RUNS)
            )
        if "discovered" in graph.shape:
            what = f"{graph.nodes:,} nodes, {graph.edges:,} edges, {graph.shape}: s"
            found.append(_at_most(what, graph.seconds, MOST_DISCOVERED))
    for plan in plans:
        if plan.scene in _AIMED_AT:
            found.append(_at_most(f"{plan.what}: CPU s", plan.seconds, _AIMED_AT[plan.scene]))
    if live is not None:
        found.append(_at_most("/filter beside a plan: p99 longer by, ms", live.added, MOST_ADDED))
        if live.plan_mebibytes:
            ratio = live.plan_mebibytes / live.server_mebibytes
            found.append(_at_most("memory of a plan over the server's", ratio, MOST_MEMORY))
        found.append(_at_most("longest hold of the engine's lock, ms", live.longest_hold, MOST_HELD))
    if opened is not None:
        found.append(_at_most("gate after the enabling event: p99, ms", 1000 * opened.p99, round(1000 * opened.aim, 1)))
    return found


def _at_most(what: str, value: float, most: float) -> Aim:
    return Aim(what, value, f"at most {most:g}", value <= most)


def _show(
    console: Console,
    graphs: Sequence[fixpoint.Figure],
    plans: Sequence[placing.Figure],
    live: served.Served | None,
) -> None:
    table = Table("graph", title="engine of dependencies, one worker", title_justify="left")
    for title in ("nodes", "edges", "dispatches", "runs of the hub", "s"):
        table.add_column(title, justify="right")
    for graph in graphs:
        numbers = (graph.nodes, graph.edges, graph.dispatches, graph.hub_runs)
        table.add_row(graph.shape, *(f"{number:,}" for number in numbers), f"{graph.seconds:.3f}")
    console.print(table)
    table = Table(
        "plan", title=f"plans: {plans[0].size}", title_justify="left", caption="best process; memory at its peak"
    )
    for title in ("run", "wait", "attempts", "CPU s", "MiB more"):
        table.add_column(title, justify="right")
    for plan in plans:
        numbers = (plan.runs, plan.waits, plan.attempts)
        table.add_row(plan.what, *(f"{number:,}" for number in numbers), f"{plan.seconds:.2f}", f"{plan.mebibytes:.0f}")
    console.print(table)
    if live is not None:
        took = ", ".join(f"{each / 1e3:.1f}" for each in live.plans)
        quiet, beside = p99(live.quiet), p99(live.beside)
        console.print(
            f"server: plans in {took} s; p99 of /filter {quiet:.1f} ms quiet, {beside:.1f} ms beside a plan "
            f"({len(live.beside):,} calls); {live.server_mebibytes:.0f} MiB, a plan {live.plan_mebibytes:.0f} MiB",
            highlight=False,
        )


def _as_json(
    graphs: Sequence[fixpoint.Figure],
    plans: Sequence[placing.Figure],
    live: served.Served | None,
    opened: gates.GateFigures | None,
) -> dict[str, Any]:
    return {"graphs": graphs, "plans": plans, "server": live, "gates": opened}


if __name__ == "__main__":
    raise SystemExit(main())
