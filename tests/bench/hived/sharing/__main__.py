"""make hived-figure: who waits longer for sharing? Draws docs/hived-sharing.svg, prints its numbers.

    python -m tests.bench.hived.sharing [--days N] [--seed N] [--svg FILE]

Takes about a minute. What is simulated: docs/hived-sharing.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.bench.hived.sharing.figure import draw as picture
from tests.bench.hived.sharing.figure import table
from tests.bench.hived.sharing.simulate import compare
from tests.bench.hived.sharing.trace import PHILLY, WHOLE_MACHINES, Tenant, draw

TENANTS = [
    Tenant("research", 12, 0.95, PHILLY),
    Tenant("speech", 12, 0.95, PHILLY),
    Tenant("vision", 12, 0.95, PHILLY),
    Tenant("search", 12, 0.95, PHILLY),
    Tenant("language", 6, 0.6, WHOLE_MACHINES),
]
_SVG = Path(__file__).parents[4] / "docs" / "hived-sharing.svg"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit status 1: somebody waits longer under HiveD than with machines of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hived.sharing", description="Who waits for sharing?")
    parser.add_argument("--days", type=float, default=30, help="days in which jobs arrive (default 30)")
    parser.add_argument("--seed", type=int, default=1, help="of the jobs (default 1)")
    parser.add_argument("--svg", type=Path, default=_SVG, metavar="FILE", help="default docs/hived-sharing.svg")
    chosen = parser.parse_args(arguments)
    comparison = compare(TENANTS, draw(TENANTS, chosen.days, chosen.seed))
    chosen.svg.write_text(picture(comparison), encoding="utf-8")
    print(table(comparison))
    outcome = comparison.hived
    print(
        f"\nHiveD: beside them {outcome.opportunistic:,} opportunistic jobs ran, with {outcome.evictions:,} evictions."
    )
    return 0 if comparison.hived.delay == comparison.private.delay else 1


if __name__ == "__main__":
    raise SystemExit(main())
