"""The graph of a plan in the language of Graphviz: `waggle plan -f . -o dot | dot -Tpng > plan.png`."""

from __future__ import annotations

from collections.abc import Iterator

from extender.logs.printable import printable
from extender.plan.records import Plan, Sign
from extender.plan.showing.graph import Box, Graph, graph

_COLORS = {
    Sign.RUNS: "darkgreen",
    Sign.MOVES: "darkorange",
    Sign.EVICTED: "red",
    Sign.WAITS: "purple",
    Sign.STAYS: "gray",
}
_LONGEST = 300


def dot(plan: Plan) -> str:
    """Return the graph as text: waves as ranks, from left to right."""
    return "\n".join(["digraph plan {", *_body(graph(plan)), "}", ""])


def _body(found: Graph) -> Iterator[str]:
    yield '  rankdir=LR; node [shape=box, style=rounded, fontname="sans-serif"];'
    for number, title in enumerate(found.titles):
        boxes = [box for box in found.boxes if box.column == number]
        yield f"  subgraph cluster_{number} {{ label={_quoted(title)}; style=dotted;"
        yield from (f"    {_box(box)}" for box in boxes)
        yield "  }"
    for arrow in found.arrows:
        yield f"  {_quoted(arrow.before)} -> {_quoted(arrow.after)} [label={_quoted(arrow.state)}];"
    if found.more_boxes or found.more_arrows:
        yield f"  // not drawn: {found.more_boxes} more boxes, {found.more_arrows} more arrows"


def _box(box: Box) -> str:
    label = "\\n".join(_text(each) for each in (f"{box.sign} {box.name}", box.detail) if each)
    return f'{_quoted(box.name)} [label="{label}", color={_COLORS[box.sign]}];'


def _quoted(text: str) -> str:
    return f'"{_text(text)}"'


def _text(text: str) -> str:
    """Return text as it stands between quotes: an escape of Graphviz in it stays what it was."""
    return printable(text, _LONGEST).replace("\\", "\\\\").replace('"', '\\"')
