"""The study of the sharing anomaly: who waits longer for sharing machines than with machines of its own?

Takes about a minute. What is simulated: docs/hived-sharing.md.
"""

from __future__ import annotations

from typing import NamedTuple

from extender.lab.studies.sharing.figure import draw as picture
from extender.lab.studies.sharing.figure import table
from extender.lab.studies.sharing.simulate import Comparison, compare
from extender.lab.studies.sharing.trace import PHILLY, WHOLE_MACHINES, Tenant, draw

TENANTS = [
    Tenant("research", 12, 0.95, PHILLY),
    Tenant("speech", 12, 0.95, PHILLY),
    Tenant("vision", 12, 0.95, PHILLY),
    Tenant("search", 12, 0.95, PHILLY),
    Tenant("language", 6, 0.6, WHOLE_MACHINES),
]
#: Days in which jobs come, and the seed of the published figure.
DAYS, SEED = 30.0, 1


class Findings(NamedTuple):
    """The result: a table in Markdown with a sentence below it, a figure in SVG, and whether HiveD's promise held."""

    text: str
    figure: str
    #: No guaranteed job started later, or earlier, than with the tenant's own machines.
    holds: bool


def run(days: float = DAYS, seed: int = SEED) -> Findings:
    """Draw the jobs, simulate the three ways to share, and compare them. Raises ValueError for too few days."""
    jobs = draw(TENANTS, days, seed)
    for tenant in TENANTS:
        if not any(job.guaranteed and job.tenant == tenant.name for job in jobs):
            raise ValueError(f"no job of {tenant.name} comes within {days:g} days: expected more days")
    comparison = compare(TENANTS, jobs)
    return Findings(_text(comparison), picture(comparison), comparison.hived.delay == comparison.private.delay)


def _text(comparison: Comparison) -> str:
    hived = comparison.hived
    many = f"{hived.opportunistic:,} opportunistic jobs ran, with {hived.evictions:,} evictions"
    return f"{table(comparison)}\n\nHiveD: beside them {many}."
