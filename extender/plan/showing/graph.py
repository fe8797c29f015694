"""A plan as a graph: boxes for what is planned, in columns by wave, and arrows from what is waited for.

A box is a line of the plan without its reasons: a workload, a gang without one, or an object of its own. What is waited
for and has no row has a box before all waves: it stays as it is, or does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from algorithm.reasons import Code
from extender.plan.records import Plan, Row, Sign
from extender.plan.showing.lines import group_of, name_of, subject_of

#: Boxes and arrows that are drawn; the first ones, by column and name.
MOST_BOXES, MOST_ARROWS = 400, 2000
#: The sign of a box is the first of these that one of its rows has.
_WORST = (Sign.WAITS, Sign.EVICTED, Sign.MOVES, Sign.RUNS, Sign.STAYS)


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """One box. `detail` is its second line."""

    name: str
    sign: Sign
    column: int
    detail: str = ""


class Arrow(msgspec.Struct, frozen=True):
    """`after` starts when `before` has reached `state`."""

    before: str
    after: str
    state: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Boxes in the order in which they are drawn. `titles` are of the columns; the other numbers are left out."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    titles: tuple[str, ...]
    more_boxes: int = 0
    more_arrows: int = 0


def graph(plan: Plan) -> Graph:
    """Return the graph of a plan, within its bounds."""
    rows = _boxes(plan.rows)
    aliases = _aliases(plan.rows, rows)
    arrows = _arrows(plan, aliases)
    there = sorted({name for arrow in arrows for name in (arrow.before, arrow.after)} - rows.keys())
    columns = _columns(rows, arrows)
    shift = 1 if there else 0
    lost = {root for row in plan.rows if row.code == Code.DEPENDENCY_NOT_FOUND for root in row.root}
    boxes = [_outside(name, is_lost=name in lost) for name in there]
    boxes += [_box(name, some, columns[name] + shift) for name, some in rows.items()]
    boxes.sort(key=lambda box: box.column)
    kept = {box.name for box in boxes[:MOST_BOXES]}
    drawn = [arrow for arrow in arrows if {arrow.before, arrow.after} <= kept]
    width = max((box.column for box in boxes), default=-1) + 1
    titles = ("not in the plan",) * shift + tuple(_title(number) for number in range(width - shift))
    return Graph(
        boxes=tuple(boxes[:MOST_BOXES]),
        arrows=tuple(drawn[:MOST_ARROWS]),
        titles=titles,
        more_boxes=len(boxes) - len(kept),
        more_arrows=len(arrows) - len(drawn[:MOST_ARROWS]),
    )


def _title(number: int) -> str:
    return f"wave {number}" if number else "at once"


def _boxes(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(subject_of(row), []).append(row)
    return found


def _aliases(rows: Iterable[Row], boxes: Mapping[str, object]) -> dict[str, str]:
    """Return the box of each name that a dependency may use: a pod's is its workload's, and so is its gang's if the
    gang has pods of one workload only."""
    aliases: dict[str, str] = {}
    of_groups: dict[str, set[str]] = {}
    for row in rows:
        aliases[name_of(row)] = subject_of(row)
        if group := group_of(row):
            of_groups.setdefault(group, set()).add(subject_of(row))
    aliases |= {group: min(names) for group, names in of_groups.items() if len(names) == 1 and group not in boxes}
    return aliases


def _arrows(plan: Plan, aliases: Mapping[str, str]) -> list[Arrow]:
    found = {
        Arrow(aliases.get(before, before), aliases.get(after, after), state): None
        for after, before, state in plan.edges
    }
    return list(found)


def _columns(boxes: Mapping[str, list[Row]], arrows: Iterable[Arrow]) -> dict[str, int]:
    """Return the column of each box: its last wave; what waits stands after all that it waits for, unless that is a
    cycle."""
    columns = {name: max(row.wave for row in rows) for name, rows in boxes.items()}
    waiting = {name for name, rows in boxes.items() if any(row.sign is Sign.WAITS for row in rows)}
    after: dict[str, list[str]] = {}
    open_ = dict.fromkeys(boxes, 0)
    for arrow in arrows:
        if arrow.before in boxes and arrow.after in boxes:
            after.setdefault(arrow.before, []).append(arrow.after)
            open_[arrow.after] += 1
    ready = [name for name, number in open_.items() if not number]
    while ready:
        name = ready.pop()
        for each in after.get(name, ()):
            if each in waiting:
                columns[each] = max(columns[each], columns[name] + 1)
            open_[each] -= 1
            if not open_[each]:
                ready.append(each)
    return columns


def _outside(name: str, *, is_lost: bool) -> Box:
    if is_lost:
        return Box(name=name, sign=Sign.WAITS, column=0, detail="does not exist")
    return Box(name=name, sign=Sign.STAYS, column=0)


def _box(name: str, rows: list[Row], column: int) -> Box:
    sign = min((row.sign for row in rows), key=_WORST.index)
    number = "" if len(rows) == 1 else f"{len(rows)} {rows[0].kind.lower()}s"
    bad = next((row.code for row in rows if row.sign is sign and row.code), "")
    places = {row.node for row in rows if row.node}
    where = min(places) if len(places) == 1 else f"{len(places)} nodes" if places else ""
    return Box(name=name, sign=sign, column=column, detail=", ".join(filter(None, (number, bad or where))))
