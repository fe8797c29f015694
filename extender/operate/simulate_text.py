"""The results of simulations as a table on a terminal: a column for each run.

Names come from traces of strangers: a line break in one is shown as `\\n`, and begins no line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from extender.lab.report.waiting import why_never_started
from extender.lab.results import Group, Results, Run, Spread
from extender.logs.printable import printable

#: Groups that are listed, and remarks.
_MOST_GROUPS, _MOST_REMARKS = 12, 20
_Row = tuple[str, ...]


def text_of(results: Results) -> str:
    """Return the results as text."""
    runs = results.runs
    rows: list[_Row] = [("", *(run.name for run in runs))]
    rows += [(label, *(cell(run) for run in runs)) for label, cell in _ROWS if any(cell(run) != "-" for run in runs)]
    parts = [_head(results), _table(rows)]
    parts += _groups("by tenant", results, lambda run: run.measures.tenants)
    parts += _groups("by size", results, lambda run: run.measures.sizes)
    parts += stopped(runs)
    parts += [_lines(f"{run.name}: {why}" for why in found) for run in runs if (found := why_never_started(run))]
    remarks = [*results.remarks, *(f"{run.name}: {remark}" for run in runs for remark in run.remarks)]
    if remarks:
        shown = remarks[:_MOST_REMARKS]
        more = [f"and {len(remarks) - len(shown)} more"] if len(remarks) > len(shown) else []
        parts.append(_lines(("Remarks:", *(f"  {remark}" for remark in (*shown, *more)))))
    return "\n\n".join(parts)


def stopped(runs: Iterable[Run]) -> list[str]:
    """Return why each run was stopped that was."""
    return [printable(f"{run.name} was stopped: {run.stopped}") for run in runs if run.stopped]


def _lines(texts: Iterable[str]) -> str:
    """One line for each text, whatever is in it."""
    return "\n".join(map(printable, texts))


def _head(results: Results) -> str:
    cores = f"{results.cpu_milli / 1000:g} cores"
    gpus = f"{results.gpu_milli / 1000:g} GPUs, " if results.gpu_milli else ""
    cluster = f"{results.nodes} {'node' if results.nodes == 1 else 'nodes'} with {gpus}{cores}"
    name = printable(results.workload or "The workload")
    jobs, pods = results.jobs, results.pods
    return f"{name}: {jobs} job{'s' * (jobs != 1)} with {pods} pod{'s' * (pods != 1)} on {cluster}"


def _groups(title: str, results: Results, groups_of: Callable[[Run], Sequence[Group]]) -> list[str]:
    names = list(dict.fromkeys(group.name for run in results.runs for group in groups_of(run)))
    if len(names) < 2:
        return []
    by_name = [{group.name: group for group in groups_of(run)} for run in results.runs]
    rows: list[_Row] = [(f"mean delay {title}", *(run.name for run in results.runs))]
    for name in names[:_MOST_GROUPS]:
        found = [groups.get(name) for groups in by_name]
        rows.append((f"  {name or '(none)'}", *(seconds(each.delay.mean) if each else "-" for each in found)))
    if len(names) > _MOST_GROUPS:
        rows.append((f"  and {len(names) - _MOST_GROUPS} more", *("" for _ in results.runs)))
    return [_table(rows)]


def _table(given: Sequence[_Row]) -> str:
    rows = [tuple(map(printable, row)) for row in given]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(widths[0]) if at == 0 else cell.rjust(max(widths[at], 12)) for at, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def seconds(value: float | None) -> str:
    """A time in the largest unit of which there are at least two."""
    if value is None:
        return "-"
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if value >= 2 * length:
            return f"{value / length:.1f} {unit}"
    return f"{value:.1f} s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _of(measure: Callable[[Run], Spread], name: str) -> Callable[[Run], str]:
    return lambda run: seconds(getattr(measure(run), name))


def _hours(milli_seconds: float) -> str:
    return f"{milli_seconds / 3_600_000:.1f}"


def _delay(run: Run) -> Spread:
    return run.measures.all.delay


def _completion(run: Run) -> Spread:
    return run.measures.all.completion


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


_ROWS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("jobs done", lambda run: str(run.measures.all.done)),
    ("jobs that never started", lambda run: str(run.measures.all.never_started)),
    ("delay, mean", _of(_delay, "mean")),
    ("delay, p50", _of(_delay, "p50")),
    ("delay, p90", _of(_delay, "p90")),
    ("delay, p99", _of(_delay, "p99")),
    ("completion, mean", _of(_completion, "mean")),
    ("completion, p50", _of(_completion, "p50")),
    ("completion, p90", _of(_completion, "p90")),
    ("completion, p99", _of(_completion, "p99")),
    ("slowdown, mean", lambda run: _number(run.measures.all.slowdown)),
    ("makespan", lambda run: seconds(run.measures.makespan)),
    ("GPUs allocated", lambda run: _share(run.measures.gpu_allocation)),
    ("GPUs used", lambda run: _share(run.measures.gpu_utilisation)),
    ("GPUs fragmented", lambda run: _share(run.measures.gpu_fragmentation)),
    ("cores allocated", lambda run: _share(run.measures.cpu_allocation)),
    ("evictions", lambda run: str(run.measures.evictions)),
    ("jobs on nodes that failed", lambda run: str(run.measures.failures)),
    ("GPU hours lost", lambda run: _hours(run.measures.lost_gpu_milli_seconds)),
    ("fairness of tenants", lambda run: _number(run.measures.fairness)),
    ("attempts", lambda run: str(run.attempts)),
)
