"""All measures of all runs as a table with the best marked, and the few that are worth a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from extender.lab.report.plot import text
from extender.lab.report.units import count, duration, gpu_hours, share
from extender.lab.results import Measures, Run

_Value = Callable[[Measures], float | None]


class Measure(NamedTuple):
    """A row: its name, its value, how that is told, and whether more or less of it is better (None: neither)."""

    name: str
    value: _Value
    told: Callable[[float], str]
    more_is_better: bool | None = None


class Section(NamedTuple):
    """Rows with a heading."""

    name: str
    rows: tuple[Measure, ...]


def _index(value: float) -> str:
    return f"{value:.3f}"


def _factor(value: float) -> str:
    return f"{value:.2f} x"


def _spread(which: str) -> tuple[Measure, ...]:
    def at(field: str) -> _Value:
        return lambda measures: getattr(getattr(measures.all, which), field)

    names = {"mean": "mean", "p50": "median", "p90": "90 % within", "p99": "99 % within", "most": "longest"}
    return tuple(Measure(name, at(field), duration, False) for field, name in names.items())


SECTIONS = (
    Section(
        "Jobs",
        (
            Measure("done", lambda measures: measures.all.done, count, True),
            Measure("never started", lambda measures: measures.all.never_started, count, False),
            Measure("from first arrival to last end", lambda measures: measures.makespan, duration, False),
        ),
    ),
    Section("Queueing delay", _spread("delay")),
    Section("Completion time", _spread("completion")),
    Section(
        "Slowdown and fairness",
        (
            Measure("mean slowdown", lambda measures: measures.all.slowdown, _factor, False),
            Measure("fairness between tenants", lambda measures: measures.fairness, _index, True),
        ),
    ),
    Section(
        "Use of the cluster",
        (
            Measure("GPUs allocated", lambda measures: measures.gpu_allocation, share),
            Measure("GPUs used", lambda measures: measures.gpu_utilisation, share, True),
            Measure("GPUs fragmented", lambda measures: measures.gpu_fragmentation, share, False),
            Measure(
                "of idle GPU time, fragmented",
                lambda measures: measures.gpu_fragmentation_of_idle,
                share,
                False,
            ),
            Measure("cores allocated", lambda measures: measures.cpu_allocation, share),
            Measure("cores used", lambda measures: measures.cpu_utilisation, share, True),
        ),
    ),
    Section(
        "Interruptions",
        (
            Measure("evictions", lambda measures: measures.evictions, count, False),
            Measure("restarts: a node failed", lambda measures: measures.failures, count),
            Measure("GPU hours lost", lambda measures: measures.lost_gpu_milli_seconds, gpu_hours, False),
            Measure(
                "GPU hours held by waiting gangs", lambda measures: measures.held_gpu_milli_seconds, gpu_hours, False
            ),
        ),
    ),
)


def best_of(row: Measure, runs: Sequence[Run]) -> set[int]:
    """Return the runs that are best in a measure: none if all are alike, or if there is only one."""
    values = {number: value for number, run in enumerate(runs) if (value := row.value(run.measures)) is not None}
    if row.more_is_better is None or len(values) < 2 or len({row.told(value) for value in values.values()}) == 1:
        return set()
    best = (max if row.more_is_better else min)(values.values())
    return {number for number, value in values.items() if row.told(value) == row.told(best)}


def table(runs: Sequence[Run]) -> str:
    """Return the table."""
    names = "".join(f'<th scope="col">{text(run.name, 40)}</th>' for run in runs)
    parts = [f'<thead><tr><th scope="col">measure</th>{names}</tr></thead>']
    for section in SECTIONS:
        rows = [_row(row, runs) for row in section.rows if any(row.value(run.measures) is not None for run in runs)]
        if rows:
            heading = f'<tr><th scope="rowgroup" colspan="{len(runs) + 1}">{text(section.name)}</th></tr>'
            parts.append(f"<tbody>{heading}{''.join(rows)}</tbody>")
    return f"<table>{''.join(parts)}</table>"


def _row(row: Measure, runs: Sequence[Run]) -> str:
    best = best_of(row, runs)
    cells = []
    for number, run in enumerate(runs):
        value = row.value(run.measures)
        told = "–" if value is None else text(row.told(value))
        cells.append(f'<td class="best"><b>{told}</b> <i>best</i></td>' if number in best else f"<td>{told}</td>")
    return f'<tr><th scope="row">{text(row.name)}</th>{"".join(cells)}</tr>'


def sentences(runs: Sequence[Run]) -> list[str]:
    """Return what is worth a sentence: who is best in a few measures, and by how much."""
    rows = {(section.name, row.name): row for section in SECTIONS for row in section.rows}
    told = {
        ("Queueing delay", "mean"): "Jobs wait least under {best}: {value} on average",
        ("Queueing delay", "90 % within"): "90 % of the jobs start within {value} under {best}",
        ("Use of the cluster", "GPUs used"): "GPUs are used most under {best}: {value}",
        ("Interruptions", "GPU hours lost"): "Least work is lost under {best}: {value} of GPU time",
        ("Slowdown and fairness", "fairness between tenants"): "Tenants are treated most alike under {best}: {value}",
    }
    return [found for key, words in told.items() if (found := _sentence(rows[key], words, runs))]


def _sentence(row: Measure, words: str, runs: Sequence[Run]) -> str:
    best = best_of(row, runs)
    if not best:
        return ""
    values = {number: row.value(run.measures) for number, run in enumerate(runs)}
    others = [
        f"{run.name} {row.told(value)}"
        for number, run in enumerate(runs)
        if number not in best and (value := values[number]) is not None
    ]
    first = values[min(best)]
    assert first is not None
    named = " and ".join(runs[number].name for number in sorted(best))
    return words.format(best=named, value=row.told(first)) + (f" ({', '.join(others)})." if others else ".")
