"""A timeline of several runs as one self-contained SVG: who had the GPUs, and how many pods waited.

    a panel for each run   GPUs by tenant, one above the other, below the line of all GPUs (cores, where there are none)
    the last panel         pods that wait, a line for each run

It follows the reader's choice of light or dark, has labelled axes, and loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from extender.lab.results import JobResult, Run
from extender.lab.studies.sharing.svg import ticks
from extender.logs.printable import printable
from extender.replay.comparing import short

#: Columns of a panel, tenants with a colour of their own, and characters of a name.
_STEPS: Final = 240
_TENANTS: Final = 7
_LONGEST: Final = 24
_WIDTH, _LEFT, _RIGHT = 860, 64, 178
_PANEL, _WAITING, _GAP, _TOP = 130, 120, 54, 58
_OTHERS = "other tenants"
_STYLE = """\
svg { font: 12px system-ui, sans-serif; }
.paper { fill: #ffffff; } text { fill: #24292f; } .soft { fill: #57606a; } .bold { font-weight: 600; }
.grid { stroke: #d0d7de; } .axis { stroke: #57606a; } .all { stroke: #24292f; fill: none; stroke-dasharray: 4 3; }
.t0 { fill: #0969da; } .t1 { fill: #bc4c00; } .t2 { fill: #1a7f37; } .t3 { fill: #8250df; }
.t4 { fill: #bf8700; } .t5 { fill: #cf222e; } .t6 { fill: #1b7c83; } .t7 { fill: #8c959f; }
.w { fill: none; stroke-width: 1.8; } .w0 { stroke: #57606a; } .w1 { stroke: #0969da; stroke-dasharray: 6 3; }
.w2 { stroke: #bc4c00; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; } text { fill: #e6edf3; } .soft { fill: #9198a1; }
  .grid { stroke: #30363d; } .axis { stroke: #9198a1; } .all { stroke: #e6edf3; }
  .t0 { fill: #58a6ff; } .t1 { fill: #f0883e; } .t2 { fill: #3fb950; } .t3 { fill: #a371f7; }
  .t4 { fill: #d29922; } .t5 { fill: #f85149; } .t6 { fill: #39c5cf; } .t7 { fill: #6e7681; }
  .w0 { stroke: #9198a1; } .w1 { stroke: #58a6ff; } .w2 { stroke: #f0883e; }
}
"""


class _Panel(NamedTuple):
    top: float
    height: float
    most: float
    horizon: float

    def x(self, at: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / self.horizon

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.most)


def timeline(runs: Sequence[Run], horizon: float, title: str) -> str:
    """Return the SVG. The runs need their stays; `horizon` is their end, seconds."""
    horizon = max(horizon, 1.0)
    has_gpus = any(job.gpu_milli for run in runs for job in run.jobs)
    tenants = _tenants(runs, has_gpus=has_gpus)
    there = max((_there(run, has_gpus=has_gpus) for run in runs), default=0.0)
    parts = [_text(_LEFT - 48, 22, title, "bold"), *_legend(tenants)]
    top = float(_TOP)
    for run in runs:
        levels = _levels(run, tenants, horizon, has_gpus=has_gpus)
        most = max(there, *(sum(step) for step in levels), 1.0)
        panel = _Panel(top, _PANEL, ticks(most)[-1], horizon)
        parts += _frame(panel, f"{run.name}: {'GPUs' if has_gpus else 'cores'} by tenant")
        parts += _areas(panel, levels)
        parts.append(f'<path class="all" d="M{panel.x(0):.1f} {panel.y(there):.1f}H{panel.x(horizon):.1f}"/>')
        top += _PANEL + _GAP
    waiting = [_waiting(run, horizon) for run in runs]
    panel = _Panel(top, _WAITING, ticks(max((max(line) for line in waiting), default=1.0) or 1.0)[-1], horizon)
    parts += _frame(panel, "pods that wait")
    for number, (run, line) in enumerate(zip(runs, waiting, strict=True)):
        parts += [_line(panel, line, number), *_key(panel, run.name, number)]
    parts.append(
        _text((_LEFT + _WIDTH - _RIGHT) / 2, top + _WAITING + 36, "time since the beginning", "soft", "middle")
    )
    height = top + _WAITING + 52
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img">'
    paper = f'<rect class="paper" width="{_WIDTH}" height="{height:.0f}"/>'
    return "\n".join(
        [head, f"<title>{_escaped(title)}</title>", f"<style>\n{_STYLE}</style>", paper, *parts, "</svg>\n"]
    )


# -- what is drawn ----------------------------------------------------------------------------------------------------


def _tenants(runs: Sequence[Run], *, has_gpus: bool) -> list[str]:
    """The tenants with most use, the largest first, and one name for all others."""
    used: dict[str, float] = {}
    for run in runs:
        jobs = {job.name: job for job in run.jobs}
        for stay in run.stays:
            job = jobs[stay.job]
            used[job.tenant] = used.get(job.tenant, 0.0) + _amount(job, has_gpus=has_gpus) * (stay.end - stay.start)
    found = sorted(used, key=lambda name: (-used[name], name))
    return found if len(found) <= _TENANTS else [*found[:_TENANTS], _OTHERS]


def _amount(job: JobResult, *, has_gpus: bool) -> float:
    """What one pod of the job takes."""
    return (job.gpu_milli if has_gpus else job.cpu_milli) / job.pods / 1000


def _there(run: Run, *, has_gpus: bool) -> float:
    return max((point.gpu_milli if has_gpus else point.cpu_milli for point in run.series.points), default=0.0) / 1000


def _levels(run: Run, tenants: Sequence[str], horizon: float, *, has_gpus: bool) -> list[list[float]]:
    """For each step what each tenant has: means over the step."""
    step = horizon / _STEPS
    levels = [[0.0] * len(tenants) for _ in range(_STEPS)]
    index = {name: number for number, name in enumerate(tenants)}
    jobs = {job.name: job for job in run.jobs}
    for stay in run.stays:
        job = jobs[stay.job]
        tenant = index.get(job.tenant, len(tenants) - 1)
        amount = _amount(job, has_gpus=has_gpus)
        for at in range(int(stay.start / step), min(_STEPS, int(stay.end / step) + 1)):
            shared = min(stay.end, (at + 1) * step) - max(stay.start, at * step)
            levels[at][tenant] += amount * max(0.0, shared) / step
    return levels


def _waiting(run: Run, horizon: float) -> list[float]:
    """For each step the mean number of pods that wait."""
    points, size = run.series.points, run.series.step
    step = horizon / _STEPS
    if not points:
        return [0.0] * _STEPS
    return [max(0.0, points[min(len(points) - 1, int((at + 0.5) * step / size))].waiting_pods) for at in range(_STEPS)]


# -- how it is drawn --------------------------------------------------------------------------------------------------


def _escaped(text: str) -> str:
    """The text as XML has it, which allows no controls."""
    return escape(printable(text))


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{_escaped(text)}</text>'


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _legend(tenants: Sequence[str]) -> list[str]:
    parts = []
    for number, name in enumerate(tenants):
        x, y = _WIDTH - _RIGHT + 16, _TOP + 12 + 20 * number
        parts.append(f'<rect class="t{number}" x="{x}" y="{y - 10}" width="12" height="12"/>')
        parts.append(_text(x + 18, y, _cut(name or "(no tenant)")))
    return parts


def _frame(panel: _Panel, title: str) -> list[str]:
    parts = [_text(_LEFT - 48, panel.top - 12, title, "bold")]
    for tick in ticks(panel.most, 3):
        if tick <= panel.most:
            y, kind = panel.y(tick), "grid" if tick else "axis"
            parts.append(f'<path class="{kind}" d="M{_LEFT} {y:.1f}H{panel.x(panel.horizon):.1f}"/>')
            parts.append(_text(_LEFT - 6, y + 4, f"{tick:g}", "soft", "end"))
    step = _round_time(panel.horizon / 6)
    at = 0.0
    while at <= panel.horizon:
        parts.append(_text(panel.x(at), panel.top + panel.height + 16, "0" if not at else short(at), "soft", "middle"))
        at += step
    return parts


def _round_time(about: float) -> float:
    """A round number of seconds, minutes or hours, not less than `about`."""
    for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200):
        if step >= about:
            return step
    return 86400.0 * -(-about // 86400)


def _areas(panel: _Panel, levels: Sequence[Sequence[float]]) -> list[str]:
    """One area for each tenant, on those before it."""
    below = [0.0] * _STEPS
    parts = []
    for tenant in range(len(levels[0])):
        above = [low + row[tenant] for low, row in zip(below, levels, strict=True)]
        if above != below:
            back = _stairs(panel, below, backwards=True)
            parts.append(f'<path class="t{tenant}" d="M{_stairs(panel, above)}L{back}Z"/>')
        below = above
    return parts


def _line(panel: _Panel, line: Sequence[float], number: int) -> str:
    return f'<path class="w w{number}" d="M{_stairs(panel, line)}"/>'


def _stairs(panel: _Panel, values: Sequence[float], *, backwards: bool = False) -> str:
    """A path through the values, one for each step, that has points only where they change."""
    xs = [panel.x(panel.horizon * at / _STEPS) for at in range(_STEPS + 1)]
    ys = [panel.y(value) for value in values]
    if backwards:
        xs.reverse()
        ys.reverse()
    path = [f"{xs[0]:.1f} {ys[0]:.1f}"]
    for at, (y, following) in enumerate(pairwise(ys), start=1):
        if f"{y:.1f}" != f"{following:.1f}":
            path.append(f"H{xs[at]:.1f}V{following:.1f}")
    return "".join([*path, f"H{xs[-1]:.1f}"])


def _key(panel: _Panel, name: str, number: int) -> list[str]:
    x, y = _WIDTH - _RIGHT + 16, panel.top + 12 + 20 * number
    return [f'<path class="w w{number}" d="M{x} {y - 4}h22"/>', _text(x + 28, y, _cut(name))]
