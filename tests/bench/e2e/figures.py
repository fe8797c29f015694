"""What came out: one table for pods a second, one line for gangs, the aims, and JSON with every round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.e2e.throughput import Round
from tests.bench.e2e.variants import BIND, BIND_TLS, FILTER, NONE, Variant
from tests.bench.report import Aim, show_aims

#: Sizes of clusters that something is aimed at, and pods a second there over those without an extender, at least.
AIMED_AT = (100, 1000)
LEAST = {FILTER: 0.90, BIND: 0.75, BIND_TLS: 0.75}


@dataclass
class Throughput:
    """The rounds of one variant in a cluster of so many nodes; the n-th rounds of all variants followed one another."""

    nodes: int
    variant: Variant
    rounds: list[Round] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Pods a second."""
        return median(each.rate for each in self.rounds)

    @property
    def cpu(self) -> float:
        """Milliseconds of all processes together, a pod."""
        return median(sum(each.cpu.values()) for each in self.rounds)

    def over(self, other: Throughput) -> list[float]:
        """Its pods a second over the other's, round by round."""
        return sorted(mine.rate / theirs.rate for mine, theirs in zip(self.rounds, other.rounds, strict=True))


@dataclass(frozen=True)
class Found:
    """All of a run. `gangs`: seconds from capacity freed to gang bound, of `gang_nodes` nodes that are full."""

    throughput: list[Throughput]
    gangs: list[float]
    gang_nodes: int

    def bare(self, each: Throughput) -> Throughput:
        """What it is compared with: the same but for the extender."""
        wanted = (each.nodes, each.variant.configuration, NONE)
        return next(
            other
            for other in self.throughput
            if (other.nodes, other.variant.configuration, other.variant.name) == wanted
        )


def aims(found: Found) -> list[Aim]:
    """Each variant's median ratio, in clusters of the sizes that are aimed at."""
    told = []
    for each in found.throughput:
        least = LEAST.get(each.variant.name)
        if least and each.nodes in AIMED_AT:
            value = median(each.over(found.bare(each)))
            shown = f"{each.nodes:,} nodes, {each.variant.configuration.name}, {each.variant.name}"
            what = f"pods a second over no extender's: {shown}"
            told.append(Aim(what, value, f"at least {least:.2f}", value >= least))
    return told


def show(console: Console, found: Found) -> None:
    """The table and the aims."""
    console.print(_table(found))
    console.print(
        f"from capacity freed to a gang bound, {found.gang_nodes:,} nodes: "
        f"median {median(found.gangs):.2f} s, p90 {p90(found.gangs):.2f} s ({len(found.gangs)} times)",
        highlight=False,
    )
    show_aims(console, aims(found))


def p90(values: Sequence[float]) -> float:
    return quantiles(values, n=10, method="inclusive")[8] if len(values) > 1 else values[0]


def _table(found: Found) -> Table:
    caption = (
        "ratio: of pods/s, median and range of the rounds; ms a pod: what it takes kube-scheduler to choose a node, "
        "of it beyond its own plugins, and the CPU of all processes, who share the cores"
    )
    table = Table(title="a real kube-scheduler, without and with Waggle", title_justify="left", caption=caption)
    table.add_column("nodes", justify="right", no_wrap=True)
    table.add_column("configuration", no_wrap=True)
    table.add_column("extender", no_wrap=True)
    for name in ("pods/s", "ratio", "range"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("algo- rithm", "be- yond", "CPU", "sche- duler", "API, etcd", "Wag- gle"):
        table.add_column(name, justify="right", min_width=5)
    for each in found.throughput:
        ratios = each.over(found.bare(each))
        values = [f"{each.rate:.0f}", f"{median(ratios):.2f}", f"{ratios[0]:.2f}-{ratios[-1]:.2f}"]
        values += [f"{value:.2f}" for value in _milliseconds(each)]
        table.add_row(f"{each.nodes:,}", each.variant.configuration.name, each.variant.name, *values)
    return table


def _milliseconds(each: Throughput) -> list[float]:
    """As in the table, from `algorithm` on."""
    algorithm = median(one.algorithm for one in each.rounds)
    beyond = median(one.algorithm - one.filters - one.scores for one in each.rounds)
    parts = (("kube-scheduler",), ("kube-apiserver", "etcd"), ("Waggle",))
    used = [median(sum(one.cpu.get(name, 0.0) for name in names) for one in each.rounds) for names in parts]
    return [algorithm, max(0.0, beyond), each.cpu, *used]


def as_json(found: Found) -> dict[str, Any]:
    """Every round with all of kube-scheduler's histograms, every gang, and the aims."""
    return {
        "throughput": [
            {
                "nodes": each.nodes,
                "configuration": each.variant.configuration.name,
                "variant": each.variant.name,
                "rounds": [
                    {"pods_per_second": one.rate, "load": one.load, "cpu_ms": one.cpu, "means_ms": one.means}
                    for one in each.rounds
                ],
            }
            for each in found.throughput
        ],
        "gangs": {"nodes": found.gang_nodes, "seconds": found.gangs},
        "aims": [{"what": aim.what, "found": aim.found, "wanted": aim.wanted, "met": aim.met} for aim in aims(found)],
    }
