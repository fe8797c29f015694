"""The picture of a comparison, and its numbers as a table."""

from __future__ import annotations

from statistics import fmean, median

from extender.lab.studies.sharing.simulate import Comparison, Outcome
from extender.lab.studies.sharing.svg import Drawing, Panel, ticks
from extender.lab.studies.sharing.trace import MINUTES_A_DAY, Tenant

_HOUR = 60
_NAMES = {"a": "own machines", "b": "quota of devices", "c": "HiveD"}


def draw(comparison: Comparison) -> str:
    """An SVG: mean delay by tenant, and how much later each job of the worst off starts than with its own machines."""
    drawing = Drawing(900, 400, "Queueing delay of guaranteed jobs: own machines, quota of devices, HiveD")
    _delays(drawing, comparison)
    _excess(drawing, comparison, worst_off(comparison))
    for number, (kind, name) in enumerate(_NAMES.items()):
        drawing.box(56 + number * 150, 372, 12, 12, kind)
        drawing.text(74 + number * 150, 382, name)
    return str(drawing)


def worst_off(comparison: Comparison) -> Tenant:
    """The tenant whose jobs a quota makes wait the longest beyond its own machines."""
    return max(comparison.tenants, key=lambda tenant: sum(comparison.excess(comparison.quota, comparison.of(tenant))))


def _outcomes(comparison: Comparison) -> dict[str, Outcome]:
    return {"a": comparison.private, "b": comparison.quota, "c": comparison.hived}


def _delays(drawing: Drawing, comparison: Comparison) -> None:
    outcomes = _outcomes(comparison)
    means = {
        (tenant.name, kind): fmean(outcome.delay[job.number] for job in comparison.of(tenant)) / _HOUR
        for tenant in comparison.tenants
        for kind, outcome in outcomes.items()
    }
    scale = ticks(max(means.values()))
    panel = Panel(drawing, 56, 66, 380, 260, scale[-1])
    panel.frame("Queueing delay by tenant", "hours, mean of guaranteed jobs", scale)
    middle = panel.columns(len(comparison.tenants))
    for column, tenant in enumerate(comparison.tenants):
        for number, kind in enumerate(outcomes):
            y = panel.y(means[tenant.name, kind])
            drawing.box(middle(column) - 27 + number * 18, y, 16, panel.y(0) - y, kind)
        drawing.text(middle(column), panel.y(0) + 18, tenant.name, anchor="middle")


def _excess(drawing: Drawing, comparison: Comparison, tenant: Tenant) -> None:
    jobs = comparison.of(tenant)
    excess = {
        kind: [minutes / _HOUR for minutes in comparison.excess(outcome, jobs)]
        for kind, outcome in _outcomes(comparison).items()
        if kind != "a"
    }
    scale = ticks(max(max(hours) for hours in excess.values()))
    panel = Panel(drawing, 510, 66, 370, 260, scale[-1])
    panel.frame(f"Each job of {tenant.name}: later than with own machines by", "hours, by day of arrival", scale)
    days = max(job.arrival for job in jobs) / MINUTES_A_DAY
    for day in ticks(days):
        if day <= days:
            drawing.text(panel.left + panel.width * day / days, panel.y(0) + 18, f"{day:g}", anchor="middle")
    for kind, hours in excess.items():
        x = [panel.left + panel.width * job.arrival / MINUTES_A_DAY / days for job in jobs]
        drawing.dots([(each, panel.y(late)) for each, late in zip(x, hours, strict=True) if late], kind)
        if not any(hours):
            drawing.line(panel.left, panel.y(0), panel.left + panel.width, panel.y(0), f"{kind} thick")


def table(comparison: Comparison) -> str:
    """Markdown, times in hours. Excess is over the tenant's own machines."""
    lines = [
        "| tenant | jobs | delay with own machines: mean, median | with a quota | with HiveD "
        "| excess with a quota: mean, max, jobs later | with HiveD |",
        "|---|---|---|---|---|---|---|",
    ]
    for tenant in comparison.tenants:
        jobs = comparison.of(tenant)
        cells = [tenant.name, f"{len(jobs):,}"]
        for outcome in _outcomes(comparison).values():
            delays = [outcome.delay[job.number] / _HOUR for job in jobs]
            cells.append(f"{fmean(delays):.1f}, {median(delays):.1f}")
        for outcome in (comparison.quota, comparison.hived):
            excess = [minutes / _HOUR for minutes in comparison.excess(outcome, jobs)]
            later = sum(hours > 0 for hours in excess) / len(jobs)
            cells.append(f"{fmean(excess):.1f}, {max(excess):.1f}, {later:.0%}" if any(excess) else "0")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
