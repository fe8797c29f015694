"""The table that people read, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.attacks.aims import MOST_WITHHELD
from tests.attacks.runner import Result


def line(result: Result) -> str:
    """One attack in a line or two."""
    figures = result.figures
    verdict = "BROKE" if result.broke else "late " if result.problems else "held "
    head = f"{verdict} {result.attack.name:<34} {result.did or result.attack.title}"
    if figures is None:
        return "\n".join((head, *(f"      ! {problem}" for problem in result.problems)))
    measured = (
        f"      {figures.before.mib:.0f} -> {figures.peak_mib:.0f} -> {figures.after.mib:.0f} MiB, "
        f"/filter p99 {figures.p99 * 1000:.1f} ms, worst {figures.worst * 1000:.0f} ms of {len(figures.latencies)}, "
        f"{figures.log_bytes / 1024:.0f} KiB logged, {figures.seconds:.1f} s"
    )
    if figures.withheld > MOST_WITHHELD:
        measured += f"; the machine withheld {figures.withheld:.0%} of the CPU time it was asked for"
    return "\n".join((head, measured, *(f"      ! {problem}" for problem in result.problems)))


def summary(results: Sequence[Result], seconds: float) -> str:
    """How many held, in the form that CI reads."""
    failed, undecided = sum(result.broke for result in results), sum(result.undecided for result in results)
    late = f", {undecided} undecided (late on a machine that withheld CPU time)" if undecided else ""
    return f"{len(results) - failed - undecided} passed, {failed} failed{late}\n({seconds:.0f} s)"


def as_markdown(results: Sequence[Result]) -> str:
    """The table of docs/security.md."""
    rows = ["| attack | limit | memory: before, most, after | valid `/filter`: p99, worst |", "|---|---|---|---|"]
    for result in results:
        figures = result.figures
        if figures is not None:
            memory = f"{figures.before.mib:.0f}, {figures.peak_mib:.0f}, {figures.after.mib:.0f} MiB"
            latency = f"{figures.p99 * 1000:.0f}, {figures.worst * 1000:.0f} ms"
            rows.append(f"| {result.attack.title} | {result.attack.limit} | {memory} | {latency} |")
    return "\n".join(rows)


def as_json(results: Sequence[Result]) -> str:
    return json.dumps([_one(result) for result in results], indent=2)


def _one(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": result.attack.name,
        "title": result.attack.title,
        "limit": result.attack.limit,
        "did": result.did,
        "problems": list(result.problems),
    }
    if (figures := result.figures) is not None:
        found |= {
            "mib": [figures.before.mib, figures.peak_mib, figures.after.mib],
            "p99_ms": figures.p99 * 1000,
            "worst_ms": figures.worst * 1000,
            "calls": len(figures.latencies),
            "log_bytes": figures.log_bytes,
            "seconds": figures.seconds,
            "withheld": figures.withheld,
        }
    return found
