"""make bench-lab: how fast is the simulator, and does an attempt cost more in a larger cluster?

    python -m tests.bench.lab [--quick] [--rounds N] [--json FILE] [--check]

CPU seconds of a process for each simulation, the best of several rounds: what else the machine does only ever adds.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from extender.lab.run.simulation import RunOptions, Simulation
from tests.bench.lab.workloads import workload_of
from tests.bench.report import Aim, show_aims

#: Seconds and MiB that 100,000 pods on 1,000 nodes may take; how much more a pod may cost on four times the nodes.
MOST_SECONDS, MOST_MEMORY, MOST_GROWTH = 300.0, 1024, 1.5


class Scene(NamedTuple):
    """One simulation."""

    name: str
    algorithm: str
    pods: int
    nodes: int
    load: float


SCENES = (
    Scene("all find a place", "packing", 100_000, 1000, 0.9),
    Scene("overload", "packing", 100_000, 1000, 1.3),
    Scene("shared GPUs", "fgd", 100_000, 1000, 0.9),
    Scene("1,000 nodes", "packing", 10_000, 1000, 0.9),
    Scene("4,000 nodes", "packing", 40_000, 4000, 0.9),
)


class Figure(msgspec.Struct):
    """What one simulation took."""

    scene: str
    algorithm: str
    pods: int
    nodes: int
    seconds: float
    memory_mib: int
    attempts: int
    allocation: float

    @property
    def microseconds(self) -> float:
        """CPU time for each pod."""
        return 1e6 * self.seconds / self.pods


def simulated(scene: Scene) -> Figure:
    """Run one simulation in this process."""
    workload = workload_of(pods=scene.pods, nodes=scene.nodes, load=scene.load, parts=scene.algorithm == "fgd")
    began = time.process_time()
    run = Simulation(workload, RunOptions(algorithm=scene.algorithm)).run()
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    pods = sum(job.pods for job in workload.jobs)
    allocation = run.measures.gpu_allocation or 0.0
    return Figure(scene.name, scene.algorithm, pods, scene.nodes, seconds, memory, run.attempts, allocation)


def measured(scene: Scene, rounds: int) -> Figure:
    """The quickest of several processes."""
    return min((_in_child(scene) for _ in range(rounds)), key=lambda figure: figure.seconds)


def _in_child(scene: Scene) -> Figure:
    command = [sys.executable, "-m", "tests.bench.lab", "--scene", msgspec.json.encode(scene).decode()]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. The exit status says nothing of the aims unless --check is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lab", description="How fast is the simulator?")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the pods: does the bench work?")
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many processes counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--check", action="store_true", help="fail if an aim is missed")
    parser.add_argument("--scene", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.scene is not None:
        sys.stdout.buffer.write(msgspec.json.encode(simulated(msgspec.json.decode(chosen.scene, type=Scene))))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the start", highlight=False)
    figures = []
    with console.status("simulations") as status:
        for scene in SCENES:
            status.update(scene.name)
            made = scene._replace(pods=scene.pods // 50, nodes=scene.nodes // 10) if chosen.quick else scene
            figures.append(measured(made, chosen.rounds))
    console.print(_table(figures))
    found = aims(figures)
    show_aims(console, found)
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2))
    return 1 if chosen.check and not all(aim.met for aim in found) else 0


def aims(figures: Sequence[Figure]) -> list[Aim]:
    """What the figures are held against."""
    found = []
    for figure in figures[:3]:
        name = f"{figure.pods:,} pods on {figure.nodes:,} nodes, {figure.algorithm}, {figure.scene}"
        seconds, memory = figure.seconds, figure.memory_mib
        found.append(Aim(f"{name}: CPU seconds", seconds, f"at most {MOST_SECONDS:g}", seconds <= MOST_SECONDS))
        found.append(Aim(f"{name}: memory, MiB", memory, f"at most {MOST_MEMORY}", memory <= MOST_MEMORY))
    small, large = figures[3].microseconds, figures[4].microseconds
    growth = large / small
    found.append(Aim("a pod on four times the nodes costs, times", growth, f"{MOST_GROWTH}", growth <= MOST_GROWTH))
    return found


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(title="simulations, CPU time of one core")
    for column in ("", "algorithm", "pods", "nodes", "GPUs allocated", "attempts", "seconds", "µs a pod", "MiB"):
        table.add_column(column, justify="left" if column in ("", "algorithm") else "right")
    for each in figures:
        table.add_row(
            each.scene,
            each.algorithm,
            f"{each.pods:,}",
            f"{each.nodes:,}",
            f"{100 * each.allocation:.0f} %",
            f"{each.attempts:,}",
            f"{each.seconds:.1f}",
            f"{each.microseconds:.0f}",
            str(each.memory_mib),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
