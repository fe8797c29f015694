"""A plan as Markdown that is fit for a comment on a pull request.

Names and texts come from manifests and clusters. Nothing in them is markup, mentions a user, refers to an issue or
becomes a link. The text is at most `LONGEST` characters long: GitHub refuses comments of more than 65,536.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from extender.logs.printable import printable
from extender.plan.records import Plan, Total
from extender.plan.showing.difference import NO_DIFFERENCE, Difference, headline
from extender.plan.showing.lines import Line, estimate, lines, made_with, sums, urgent_first

LONGEST = 60_000
#: Of one cell.
_CELL = 1000
#: Room for what stands below the table.
_BELOW = 4000
_TOTALS, _NAMES = 20, 20
#: One total says what the sums say.
_WORTH_TOTALS = 2
#: Every character that means something to Markdown.
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>|~!:&$])")
#: What GitHub looks for after Markdown has been read: mentions of users, numbers of issues.
_MENTION = re.compile(r"([@#])")


def markdown(plan: Plan, compared: Difference | None = None) -> str:
    """Return the plan as Markdown: the sums, a table of what happens, and what it holds for. `compared` is the
    difference to the plan without the what-if changes."""
    head = f"### Plan: {plain(', '.join(sums(plan)) or 'nothing happens')}"
    if compared is not None:
        told = f"With the change: {headline(compared)}" if compared.changed else NO_DIFFERENCE
        head += f"\n\n{plain(told)}"
    below = "\n\n".join(_below(plan))
    room = LONGEST - len(head) - max(len(below), _BELOW)
    table = "\n".join(_table(lines(plan), room))
    return "\n".join(f"{part}\n" for part in (head, table, below) if part)[:LONGEST]


def plain(text: str) -> str:
    """Return text that Markdown and GitHub show as it is, in one line."""
    escaped = _MARKUP.sub(r"\\\1", printable(text, _CELL))
    return _MENTION.sub(r"\1<!-- -->", escaped)


def code(text: str) -> str:
    """Return a code span with the text, fit for a cell of a table; "" for an empty text.

    Names have neither backticks nor bars; those of strangers are replaced, as an escape can be undone by another one.
    """
    shown = printable(text, _CELL).replace("`", "'").replace("|", "¦")
    return f"`{shown}`" if shown else ""


def _table(found: Sequence[Line], room: int) -> Iterator[str]:
    if not found:
        return
    yield "| | what | where | why |\n|---|---|---|---|"
    for number, line in enumerate(found):
        row = _row(line)
        room -= len(row) + 1
        if room < 0:
            yield f"\nand {len(found) - number} more lines"
            return
        yield row


def _row(line: Line) -> str:
    what = code(line.subject) + (f" ({line.count})" if line.count else "")
    start = estimate(line.start) if line.start is not None and line.start.latest else ""
    why = "<br>".join(filter(None, (_why(line), plain(line.fix), start)))
    return f"| `{line.sign}` | {what} | {code(line.place)} | {why} |"


def _why(line: Line) -> str:
    return ": ".join(filter(None, (f"**{plain(line.code)}**" if line.code else "", plain(line.text))))


def _below(plan: Plan) -> Iterator[str]:
    """Yield the paragraphs below the table."""
    if plan.stopped:
        yield f"**This plan was stopped before its end: {plain(plan.stopped)}.** More would happen."
    if plan.waves > 1:
        yield f"{plan.waves} waves. Critical path: {' → '.join(_some(plan.critical_path))}"
    yield from _details("Groups", plan.groups)
    yield from _details("Tenants", plan.tenants)
    if plan.unknown:
        yield f"Not planned, of kinds that a plan does not know: {', '.join(_some(plan.unknown))}"
    if plan.warnings:
        yield "\n".join(f"* {plain(warning)}" for warning in plan.warnings[:_NAMES])
    fingerprint = f"Fingerprint: {code(plan.fingerprint)}" if plan.fingerprint else ""
    yield " ".join(filter(None, (plain(made_with(plan)), fingerprint)))


def _some(names: Sequence[str]) -> Iterable[str]:
    shown = [code(name[:100]) for name in names[:_NAMES]]
    return [*shown, f"and {len(names) - _NAMES} more"] if len(names) > _NAMES else shown


def _details(title: str, totals: Sequence[Total]) -> Iterator[str]:
    if len(totals) < _WORTH_TOTALS:
        return
    rows = [
        f"| {code(each.name[:100])} | {each.runs} | {each.moves} | {each.evicted} | {each.waits} | {each.stays} |"
        for each in urgent_first(totals)[:_TOTALS]
    ]
    more = [f"and {len(totals) - _TOTALS} more"] if len(totals) > _TOTALS else []
    head = "| | run | move | evicted | wait | stay |\n|---|--:|--:|--:|--:|--:|"
    table = "\n".join([head, *rows])
    yield "\n\n".join([f"<details><summary>{title}</summary>", table, *more, "</details>"])
