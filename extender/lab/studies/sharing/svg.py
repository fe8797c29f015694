"""A small writer of SVG figures: a drawing with classes for colours, and a panel with axes.

Colours follow the reader's choice of light or dark, and the background is part of the picture: so it can be read
wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_STYLE = """\
svg { font-family: system-ui, sans-serif; font-size: 12px; }
.paper { fill: #ffffff; } text { fill: #24292f; } .soft { fill: #57606a; }
.thick { stroke-width: 4; } .grid { stroke: #d0d7de; } .axis { stroke: #57606a; }
.a { fill: #8c959f; stroke: #8c959f; } .b { fill: #bc4c00; stroke: #bc4c00; } .c { fill: #0969da; stroke: #0969da; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; } text { fill: #e6edf3; } .soft { fill: #9198a1; }
  .grid { stroke: #30363d; } .axis { stroke: #9198a1; }
  .a { fill: #6e7681; stroke: #6e7681; } .b { fill: #f0883e; stroke: #f0883e; } .c { fill: #58a6ff; stroke: #58a6ff; }
}
"""


@dataclass
class Drawing:
    """Pixels from the upper left corner."""

    width: int
    height: int
    title: str
    _parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", kind: str = "", bold: bool = False
    ) -> None:
        look = f' class="{kind}"' if kind else ""
        look += ' font-weight="600"' if bold else ""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self._parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self._parts.append(f'<rect {where} class="{kind}" stroke="none"/>')

    def dots(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """All in one path: there may be thousands."""
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        look = 'stroke-width="4" stroke-linecap="round" stroke-opacity="0.6" fill="none"'
        self._parts.append(f'<path d="{path}" class="{kind}" {look}/>')

    def __str__(self) -> str:
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{escape(self.title)}</title>\n'
        paper = f'<rect width="{self.width}" height="{self.height}" class="paper"/>\n'
        return f"{head}<style>\n{_STYLE}</style>\n{paper}" + "\n".join(self._parts) + "\n</svg>\n"


@dataclass(frozen=True)
class Panel:
    """A rectangle of a drawing with values upwards from 0 to `most`."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    most: float

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.most)

    def frame(self, title: str, unit: str, ticks: Iterable[float]) -> None:
        self.drawing.text(self.left - 40, self.top - 34, title, bold=True)
        self.drawing.text(self.left - 40, self.top - 16, unit, kind="soft")
        for tick in ticks:
            self.drawing.line(self.left, self.y(tick), self.left + self.width, self.y(tick), "grid" if tick else "axis")
            self.drawing.text(self.left - 6, self.y(tick) + 4, f"{tick:g}", anchor="end", kind="soft")

    def columns(self, number: int) -> Callable[[float], float]:
        """The middle of each of so many columns, 0 being the first."""
        return lambda column: self.left + self.width * (column + 0.5) / number


def ticks(most: float, about: int = 5) -> list[float]:
    """Round numbers from 0 on, the last one not below `most`."""
    step = 1.0
    while step * about < most:
        step *= 2.5 if f"{step:g}"[0] == "2" else 2
    found = [0.0, step]
    while found[-1] < most:
        found.append(found[-1] + step)
    return found
