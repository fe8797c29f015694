"""A plot of lines, and bars: SVG that takes any width, with its numbers beside it as text that keeps its size.

The SVG has no text: it is stretched to the width of the page, and text in it would be stretched, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

#: The coordinates of a plot.
_WIDTH, _HEIGHT = 1000, 400
#: Colours; more runs than these have another pattern of dashes.
COLOURS = 8
_DASHES = ("", "7 4", "2 3", "9 3 2 3")


class Tick(NamedTuple):
    """A number on an axis: where, 0 to 1, and what stands there."""

    at: float
    text: str


class Line(NamedTuple):
    """A line: the number of its run, its name, and points from 0 to 1 in both directions, upwards."""

    run: int
    name: str
    points: Sequence[tuple[float, float]]


def text(words: str, most: int = 60) -> str:
    """Return words for HTML, cut if they are long."""
    return escape(words if len(words) <= most else words[: most - 1] + "…")


def look(run: int) -> str:
    """Return the class with the colour of a run."""
    return f"r{run % COLOURS}"


def dash(run: int) -> str:
    """Return an attribute with the dashes of a run's lines: colours alone are not seen by everybody."""
    pattern = _DASHES[(run % COLOURS + run // COLOURS) % len(_DASHES)]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def plot(lines: Iterable[Line], x: Sequence[Tick], y: Sequence[Tick], *, summary: str, x_name: str, y_name: str) -> str:
    """Return a plot. `summary` tells what is to be seen to those who cannot see it."""
    parts = [f'<path class="grid" d="M0 {_down(tick.at)}H{_WIDTH}"/>' for tick in y if tick.at]
    parts += [f'<path class="grid" d="M{_right(tick.at)} 0V{_HEIGHT}"/>' for tick in x if 0 < tick.at < 1]
    parts.append(f'<path class="axis" d="M0 {_HEIGHT}H{_WIDTH}"/>')
    parts += [
        f'<path class="line {look(line.run)}"{dash(line.run)} d="{_path(line.points)}">'
        f"<title>{text(line.name)}</title></path>"
        for line in lines
        if line.points
    ]
    across = "".join(f'<span style="left:{100 * tick.at:.1f}%">{text(tick.text)}</span>' for tick in x)
    upwards = "".join(f'<span style="bottom:{100 * tick.at:.1f}%">{text(tick.text)}</span>' for tick in y)
    return (
        f'<div class="plot"><p class="unit" aria-hidden="true">{text(y_name)}</p>'
        f'<div class="up" aria-hidden="true">{upwards}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(summary, 2000)}">{"".join(parts)}</svg>'
        f'<div class="across" aria-hidden="true">{across}</div>'
        f'<p class="unit below" aria-hidden="true">{text(x_name)}</p></div>'
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_right(x)} {_down(y)}" for x, y in points)


def _right(at: float) -> str:
    return f"{min(1.0, max(0.0, at)) * _WIDTH:.1f}".removesuffix(".0")


def _down(at: float) -> str:
    return f"{(1 - min(1.0, max(0.0, at))) * _HEIGHT:.1f}".removesuffix(".0")


class Bar(NamedTuple):
    """A bar of one run: how long, 0 to 1, where its mark is (None: it has none), and what stands beside it."""

    run: int
    length: float
    text: str
    mark: float | None = None


def bars(groups: Iterable[tuple[str, Sequence[Bar]]]) -> str:
    """Return horizontal bars under the name of their group."""
    return f'<div class="bars">{"".join(_group(name, each) for name, each in groups)}</div>'


def _group(name: str, group: Sequence[Bar]) -> str:
    heading = f'<p class="group">{text(name)}</p>' if name else ""
    return heading + "".join(
        f'<div class="bar"><svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="1000" height="12"/>{_mark(bar)}'
        f'<rect class="{look(bar.run)}" width="{_right(bar.length)}" height="12"/></svg>'
        f"<span>{text(bar.text, 100)}</span></div>"
        for bar in group
    )


def _mark(bar: Bar) -> str:
    """A thin line from the end of the bar to its mark."""
    if bar.mark is None:
        return ""
    return f'<rect class="{look(bar.run)} thin" y="4.5" width="{_right(bar.mark)}" height="3"/>'
