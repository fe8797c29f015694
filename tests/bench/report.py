"""What came out: the figures, the aims beside them, a table for people and JSON for machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

#: The aims. Ratio of medians of /filter to its floor, at 5,000 names; p99 of /filter there beside load; decisions.
MOST_RATIO, MOST_P99_MS, LEAST_DECISIONS = 2.0, 10.0, 1000.0
_AIMED_AT = 5000


@dataclass
class Filter:
    """Calls of /filter and of its floor: for each round their milliseconds."""

    kind: str
    offered: int
    items: bool
    load: bool
    rounds: list[tuple[list[float], list[float]]] = field(default_factory=list)

    @property
    def offer(self) -> str:
        return f"{self.offered:,} {'full Nodes' if self.items else 'NodeNames'}"

    @property
    def ratios(self) -> list[float]:
        """Median of /filter over median of the floor, round by round."""
        return sorted(median(calls) / median(floor) for calls, floor in self.rounds)

    @property
    def calls(self) -> list[float]:
        return [each for calls, _ in self.rounds for each in calls]

    @property
    def floors(self) -> list[float]:
        return [each for _, floor in self.rounds for each in floor]


@dataclass
class Decisions:
    """Pods filtered and bound per second, run by run."""

    offered: int
    rates: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Aim:
    what: str
    found: float
    wanted: str
    met: bool

    def __str__(self) -> str:
        return f"{'met   ' if self.met else 'MISSED'}  {self.what}: {self.found:.2f} (aim: {self.wanted})"


@dataclass(frozen=True)
class Figure:
    """One figure of the I/O layers, round by round. `value` sums it up (the median unless given); `most` is the aim."""

    what: str
    rounds: list[float]
    value: float | None = None
    most: float | None = None

    @property
    def found(self) -> float:
        return median(self.rounds) if self.value is None else self.value

    @property
    def aim(self) -> Aim | None:
        if self.most is None:
            return None
        return Aim(self.what, self.found, f"at most {self.most:g}", self.found <= self.most)


def p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


def aims(filters: list[Filter], decisions: list[Decisions]) -> list[Aim]:
    """The aims that these figures say something about: none if nobody was offered 5,000 names."""
    found = []
    for each in filters:
        if each.items or each.offered != _AIMED_AT:
            continue
        if each.load:
            value = p99(each.calls)
            what = f"p99 in ms, {each.kind}, {each.offer}, beside load"
            found.append(Aim(what, value, f"at most {MOST_P99_MS:g}", value <= MOST_P99_MS))
        else:
            value = median(each.ratios)
            what = f"p50 over the floor's, {each.kind}, {each.offer}"
            found.append(Aim(what, value, f"at most {MOST_RATIO:g}", value <= MOST_RATIO))
    for run in decisions:
        if run.offered == _AIMED_AT:
            value = median(run.rates)
            what = f"decisions a second, {run.offered:,} NodeNames"
            found.append(Aim(what, value, f"at least {LEAST_DECISIONS:g}", value >= LEAST_DECISIONS))
    return found


def show(console: Console, filters: list[Filter], decisions: list[Decisions], rates: tuple[float, float]) -> None:
    """The tables and the aims."""
    for load in (False, True):
        title = "/filter against its floor"
        if load:
            title += f", beside {rates[0]:.0f} watch events/s and {rates[1]:.0f} binds/s"
        console.print(_filter_table(title, [each for each in filters if each.load is load]))
    table = Table("offered", "min", "median", "max", title="filter + bind decisions per second", title_justify="left")
    for run in decisions:
        low, middle, high = min(run.rates), median(run.rates), max(run.rates)
        table.add_row(f"{run.offered:,} NodeNames", *(f"{rate:.0f}" for rate in (low, middle, high)))
    console.print(table)
    show_aims(console, aims(filters, decisions))


def _filter_table(title: str, filters: list[Filter]) -> Table:
    table = Table(title=title, title_justify="left", caption="ms, client's view; ratio of the p50s, round by round")
    table.add_column("offered")
    table.add_column("answer")
    for name in ("p50", "p99", "floor p50", "floor p99", "ratio min", "median", "max"):
        table.add_column(name, justify="right")
    for each in filters:
        ratios = each.ratios
        values = (median(each.calls), p99(each.calls), median(each.floors), p99(each.floors))
        values += (ratios[0], median(ratios), ratios[-1])
        table.add_row(each.offer, each.kind, *(f"{value:.2f}" for value in values))
    return table


def show_io(console: Console, figures: list[Figure]) -> None:
    """The table and the aims."""
    table = Table(
        "figure", title="I/O layers", title_justify="left", caption="min and max of the rounds; found: over all"
    )
    for name in ("min", "found", "max", "aim"):
        table.add_column(name, justify="right")
    for each in figures:
        values = (min(each.rounds), each.found, max(each.rounds))
        aim = "" if each.aim is None else each.aim.wanted
        table.add_row(each.what, *(f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for value in values), aim)
    console.print(table)
    show_aims(console, [each.aim for each in figures if each.aim is not None])


def show_aims(console: Console, aims: list[Aim]) -> None:
    """A line for each: met, or missed."""
    for aim in aims:
        console.print(str(aim), style="green" if aim.met else "red", highlight=False)


def io_as_json(figures: list[Figure]) -> list[dict[str, Any]]:
    """Every figure with its rounds, and whether its aim is met (null: it has none)."""
    return [
        {"what": each.what, "found": each.found, "rounds": each.rounds, "met": each.aim.met if each.aim else None}
        for each in figures
    ]


def as_json(filters: list[Filter], decisions: list[Decisions], rates: tuple[float, float]) -> dict[str, Any]:
    """Every single measurement, and the aims."""
    return {
        "filters": [
            {
                "answer": each.kind,
                "offered": each.offered,
                "items": each.items,
                "load": each.load,
                "rounds": [{"filter_ms": calls, "floor_ms": floor} for calls, floor in each.rounds],
            }
            for each in filters
        ],
        "decisions": [{"offered": each.offered, "per_second": each.rates} for each in decisions],
        "load": {"events_per_second": rates[0], "binds_per_second": rates[1]},
        "aims": [
            {"what": aim.what, "found": aim.found, "wanted": aim.wanted, "met": aim.met}
            for aim in aims(filters, decisions)
        ],
    }
