"""A plan for a terminal: a line for what happens, with one reason and the nearest fix, and the sums below.

Everything in it is text of strangers (names, reasons): `paint` and the caller's `printable` decide what a terminal
gets. The signs are painted, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from extender.plan.records import Plan, Sign, Total
from extender.plan.showing.lines import Line, estimate, lines, made_with, sums, urgent_first

#: Lines, and rows of the totals, that are shown without `every`.
_LINES, _TOTALS, _NAMES = 500, 20, 20
_INDENT = "      "
#: Above lines of no wave.
_TITLES = {Sign.MOVES: "Moves:", Sign.EVICTED: "Is evicted:", Sign.WAITS: "Waits:"}

#: Returns the sign as it is shown; plain by default.
Paint = Callable[[Sign], str]


def table(
    plan: Plan,
    *,
    every: bool = False,
    paint: Paint = str,
    clean: Callable[[str], str] = str,
    all_by: str = "--all",
) -> str:
    """Return the plan as text. `every`: a line for each object. `clean` makes text of strangers safe. `all_by`: what
    the reader can ask with for all lines."""
    parts = [
        "\n".join(_body(plan, every, paint, clean, all_by)),
        clean("\n".join(_below(plan, every)).rstrip("\n")),
        clean(_ending(plan)),
    ]
    return "\n\n".join(filter(None, parts))


def _body(plan: Plan, every: bool, paint: Paint, clean: Callable[[str], str], all_by: str) -> Iterator[str]:
    found = lines(plan, every=every)
    shown = found if every else found[:_LINES]
    widths = [max((len(clean(cell(line))) for line in shown), default=0) for cell in (_subject, _count)]
    title = ""
    for line in shown:
        if plan.waves > 1 and _title(line) != title:
            title = _title(line)
            yield title
        yield from _lines(line, widths, paint, clean)
    if len(found) > len(shown):
        yield f"and {len(found) - len(shown)} more lines ({all_by} shows all)"
    elif not every and any("like it" in line.count for line in shown):
        yield f"({all_by} shows a line for each object)"


def _title(line: Line) -> str:
    if line.sign is not Sign.RUNS:
        return _TITLES.get(line.sign, "")
    return f"Wave {line.wave}, which depends on wave {line.wave - 1}:" if line.wave else "At once:"


def _subject(line: Line) -> str:
    return line.subject


def _count(line: Line) -> str:
    return line.count


def _lines(line: Line, widths: Sequence[int], paint: Paint, clean: Callable[[str], str]) -> Iterator[str]:
    start = estimate(line.start) if line.start is not None and line.start.latest else ""
    told = "; ".join(filter(None, (line.place, start, line.why)))
    cells = (f"{clean(line.subject):<{widths[0]}}", f"{clean(line.count):<{widths[1]}}", clean(told))
    yield f"{paint(line.sign)} {'  '.join(cell for cell in cells if cell)}".rstrip()
    if line.fix:
        yield f"{_INDENT}{clean(line.fix)}"


def _below(plan: Plan, every: bool) -> Iterator[str]:
    """Yield what stands below the lines: totals, waves, and what the plan does not say."""
    for title, totals in (("GROUP", plan.groups), ("TENANT", plan.tenants)):
        if len(totals) > 1 or (totals and every):
            yield from _totals(title, totals, every)
            yield ""
    if plan.waves > 1:
        yield f"Waves: {plan.waves}. Critical path: {_chain(plan.critical_path, every)}"
    yield from _listed("Not planned, of kinds that a plan does not know:", plan.unknown, every)
    yield from (f"Note: {warning}" for warning in plan.warnings)


def _totals(title: str, totals: Sequence[Total], every: bool) -> Iterator[str]:
    shown = totals if every else urgent_first(totals)[:_TOTALS]
    numbers = [(each.name, *map(str, (each.runs, each.moves, each.evicted, each.waits, each.stays))) for each in shown]
    rows = [(title, "RUN", "MOVE", "EVICTED", "WAIT", "STAY"), *numbers]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for name, *cells in rows:
        yield "  ".join([f"{name:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(cells, widths[1:], strict=True))])
    if len(totals) > len(shown):
        yield f"and {len(totals) - len(shown)} more"


def _chain(names: Sequence[str], every: bool) -> str:
    if every or len(names) <= _NAMES:
        return " -> ".join(names)
    half = _NAMES // 2
    return " -> ".join([*names[:half], f"... {len(names) - _NAMES} more ...", *names[-half:]])


def _listed(title: str, names: Sequence[str], every: bool) -> Iterator[str]:
    if names:
        yield title
        shown = names if every else names[:_NAMES]
        yield from (f"  {name}" for name in shown)
        if len(names) > len(shown):
            yield f"  and {len(names) - len(shown)} more"


def _ending(plan: Plan) -> str:
    told = [f"Plan: {', '.join(sums(plan)) or 'nothing happens'}."]
    if plan.stopped:
        told.insert(0, f"This plan was stopped before its end: {plan.stopped}. More would happen.")
    told.append(made_with(plan))
    if plan.fingerprint:
        told.append(f"It holds for the state with fingerprint {plan.fingerprint}. Nothing was changed.")
    return "\n".join(filter(None, told))
