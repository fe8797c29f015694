"""The graph of a plan as an SVG image: self-contained, without scripts, styles, fonts or links of others.

Every text is escaped, and cut to what its box has room for; the whole name is the box's tooltip. Attributes draw it, so
that a page whose policy forbids styles can show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from extender.logs.printable import printable
from extender.plan.records import Plan, Sign
from extender.plan.showing.graph import Arrow, Box, Graph, graph
from extender.plan.showing.lines import sums

_WIDE, _HIGH = 250, 44
_STEP_X, _STEP_Y = 330, 60
_LEFT, _TOP = 20, 70
#: How wide a character of the caption is at most, on the average.
_LETTER = 9
#: Characters of a line in a box.
_CHARACTERS = 34
#: Of a tooltip.
_LONGEST = 300
#: The colours of a box: inside, and its line.
_FILL = {
    Sign.RUNS: ("#e6f4ea", "#1e7e34"),
    Sign.MOVES: ("#fff8e1", "#b26a00"),
    Sign.EVICTED: ("#fdecea", "#b3261e"),
    Sign.WAITS: ("#f3e8fd", "#6a1b9a"),
    Sign.STAYS: ("#f1f3f4", "#5f6368"),
}
_TEXT = "#202124"


def svg(plan: Plan) -> str:
    """Return the image: waves as columns, from left to right."""
    return draw(graph(plan), ", ".join(sums(plan, stays=False)) or "nothing happens")  # what stays has no box


def draw(found: Graph, caption: str) -> str:
    """Return the image of a graph."""
    places = _places(found)
    told = _shown(f"Plan: {caption}")
    wide = max(_LEFT + max(len(found.titles), 1) * _STEP_X, 2 * _LEFT + len(told) * _LETTER)
    high = max((y for _, y in places.values()), default=_TOP) + _STEP_Y + 20
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif" font-size="13">'
    return "\n".join([head, *_parts(found, places, told, high), "</svg>", ""])


def _parts(found: Graph, places: Mapping[str, tuple[int, int]], caption: str, high: int) -> Iterator[str]:
    yield f"<title>{caption}</title>"
    yield (
        '<defs><marker id="waggle-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker></defs>'
    )
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'
    yield f'<text x="{_LEFT}" y="26" font-size="16" fill="{_TEXT}">{caption}</text>'
    for number, title in enumerate(found.titles):
        yield f'<text x="{_LEFT + number * _STEP_X}" y="54" fill="#5f6368">{_shown(title)}</text>'
    yield from (_curve(arrow, places) for arrow in found.arrows)
    for box in found.boxes:
        yield from _drawn(box, *places[box.name])
    if more := _left_out(found):
        yield f'<text x="{_LEFT}" y="{high - 12}" fill="#5f6368">{more}</text>'


def _places(found: Graph) -> dict[str, tuple[int, int]]:
    """Return the upper left corner of each box: one below the other in its column."""
    heights = dict.fromkeys(range(len(found.titles)), 0)
    places = {}
    for box in found.boxes:
        places[box.name] = (_LEFT + box.column * _STEP_X, _TOP + heights[box.column] * _STEP_Y)
        heights[box.column] += 1
    return places


def _drawn(box: Box, x: int, y: int) -> Iterator[str]:
    fill, line = _FILL[box.sign]
    yield f"<g><title>{_shown(f'{box.sign} {box.name} {box.detail}'.rstrip())}</title>"
    yield f'<rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="6" fill="{fill}" stroke="{line}"/>'
    yield f'<text x="{x + 10}" y="{y + 19}" fill="{_TEXT}">{_shown(f"{box.sign} {box.name}", _CHARACTERS)}</text>'
    if box.detail:
        detail = _shown(box.detail, _CHARACTERS + 4)
        yield f'<text x="{x + 10}" y="{y + 36}" font-size="11" fill="{line}">{detail}</text>'
    yield "</g>"


def _curve(arrow: Arrow, places: Mapping[str, tuple[int, int]]) -> str:
    """Return an arrow from the right side of one box to the left side of the other; in a column, around them."""
    (x1, y1), (x2, y2) = places[arrow.before], places[arrow.after]
    x1, y1, y2 = x1 + _WIDE, y1 + _HIGH // 2, y2 + _HIGH // 2
    if x2 > x1:
        bend = (x2 - x1) // 2
        path = f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    else:
        x2 += _WIDE
        path = f"M{x1} {y1} C{x1 + 60} {y1} {x2 + 60} {y2} {x2} {y2}"
    told = _shown(f"{arrow.after} waits for {arrow.before}: {arrow.state}")
    return f'<path d="{path}" fill="none" stroke="#9aa0a6" marker-end="url(#waggle-arrow)"><title>{told}</title></path>'


def _left_out(found: Graph) -> str:
    parts = [
        f"{number} more {name}{'s'[: number != 1]}"
        for number, name in ((found.more_boxes, "box"), (found.more_arrows, "arrow"))
        if number
    ]
    return f"not drawn: {', '.join(parts)}".replace("boxs", "boxes") if parts else ""


def _shown(text: str, longest: int = _LONGEST) -> str:
    """Return text as XML, without characters that XML forbids, cut in its middle to `longest` characters."""
    clean = printable(text, _LONGEST)
    if len(clean) > longest:
        half = (longest - 1) // 2
        clean = f"{clean[:half]}…{clean[-(longest - 1 - half) :]}"
    return escape(clean, {'"': "&quot;"})
