"""What came out, beside what the original took: figures, aims, tables for people and JSON for machines.

`original.json` holds the medians and p99s of the Go program (in ms), recorded on two cores of a shared virtual machine
like the one of docs/performance.md: on another machine a ratio says something about that machine, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.report import Aim, p99, show_aims

#: Aims: end to end not slower than the original from so many machines on; planning grows at most so much between two.
AIMED_FROM = 500
GROWTH_FROM, GROWTH_TO, MOST_GROWTH = 1000, 4000, 2.0
#: The figures of the algorithm by itself that must not grow with the cluster.
PLANNING = ("schedule first", "schedule others")


@dataclass(frozen=True)
class Figure:
    """Milliseconds of one thing that was done again and again. `kind` is the job, empty if there is none."""

    machines: int
    levels: int
    what: str
    kind: str
    ms: list[float]
    end_to_end: bool = False

    @property
    def p50(self) -> float:
        return median(self.ms)

    @property
    def p99(self) -> float | None:
        return p99(self.ms) if len(self.ms) > 1 else None

    @property
    def key(self) -> str:
        """Its name among the recorded figures."""
        return "/".join(filter(None, (str(self.machines), str(self.levels), self.what, self.kind)))

    @property
    def original(self) -> tuple[float, float | None] | None:
        """Median and p99 of the original; None if that was not recorded."""
        return _recorded().get(self.key)

    @property
    def ratio(self) -> float | None:
        """Of the medians: below 1 is faster than the original."""
        return self.p50 / self.original[0] if self.original else None

    def __str__(self) -> str:
        return f"{self.machines:,} machines: {self.what}{', ' if self.kind else ''}{self.kind}"


@cache
def _recorded() -> dict[str, tuple[float, float | None]]:
    recorded = json.loads(Path(__file__).with_name("original.json").read_bytes())
    return {key: (middle, high) for key, (middle, high) in recorded.items()}


def aims(figures: Iterable[Figure]) -> list[Aim]:
    """What these figures are held against: the original end to end, and growth with the cluster."""
    figures = list(figures)
    found = []
    for each in figures:
        if each.end_to_end and each.machines >= AIMED_FROM and each.original and not each.what.startswith("CPU"):
            most = each.original[0]
            found.append(Aim(f"{each}, ms", each.p50, f"at most {most:g}", each.p50 <= most))
    return found + _growth(figures)


def _growth(figures: list[Figure]) -> list[Aim]:
    large = {(each.levels, each.what, each.kind): each for each in figures if each.machines == GROWTH_TO}
    found = []
    for small in figures:
        other = large.get((small.levels, small.what, small.kind))
        if small.machines == GROWTH_FROM and small.what in PLANNING and other is not None:
            growth = other.p50 / small.p50
            what = f"{small.what}, {small.kind}, {small.levels} levels: {GROWTH_TO:,} machines over {GROWTH_FROM:,}"
            found.append(Aim(what, growth, f"at most {MOST_GROWTH:g}", growth <= MOST_GROWTH))
    return found


def show(console: Console, figures: list[Figure]) -> None:
    """A table each for the algorithm by itself and end to end, by levels; then the aims."""
    for (end_to_end, levels), group in groupby(figures, lambda each: (each.end_to_end, each.levels)):
        title = "end to end" if end_to_end else "the algorithm by itself, CPU time"
        console.print(_table(f"{title}, {levels} levels", list(group)))
    show_aims(console, aims(figures))


def _table(title: str, figures: list[Figure]) -> Table:
    table = Table(title=title, title_justify="left", caption="ms; ratio of the p50s, below 1 is faster")
    table.add_column("machines", justify="right")
    table.add_column("what")
    table.add_column("job (pods x devices)")
    for name in ("p50", "p99", "original's p50", "p99", "ratio"):
        table.add_column(name, justify="right")
    before = None
    for each in figures:
        if before is not None and each.machines != before:
            table.add_section()
        before = each.machines
        original = each.original or (None, None)
        values = (each.p50, each.p99, *original)
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
        table.add_row(f"{each.machines:,}", each.what, each.kind, *(_ms(value) for value in values), ratio)
    return table


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 100 else f"{value:,.0f}"


def as_json(figures: list[Figure]) -> dict[str, Any]:
    """Every single measurement, and the aims."""
    return {
        "figures": [
            {
                "machines": each.machines,
                "levels": each.levels,
                "what": each.what,
                "job": each.kind,
                "end_to_end": each.end_to_end,
                "ms": each.ms,
                "original": each.original,
                "ratio": each.ratio,
            }
            for each in figures
        ],
        "aims": [{"what": aim.what, "found": aim.found, "wanted": aim.wanted, "met": aim.met} for aim in aims(figures)],
    }
