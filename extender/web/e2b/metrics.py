"""Counts the calls of E2B's API, including unserved ones: those with 501 show what programs need."""

from __future__ import annotations

import re
from collections import Counter

from extender.server.views import Metric

#: E2B's other calls, as labels. Every other path is counted as `other`, so that callers cannot create labels.
_PART = r"[^/]+"
_CALLS = {
    name: re.compile(rf"(v\d+/)?{path}")
    for name, path in {
        "pause": f"sandboxes/{_PART}/pause",
        "resume": f"sandboxes/{_PART}/resume",
        "fork": f"sandboxes/{_PART}/fork",
        "snapshot": f"sandboxes/{_PART}/snapshots",
        "logs": f"sandboxes/{_PART}/logs",
        "metrics": f"sandboxes/({_PART}/)?metrics",
        "network": f"sandboxes/{_PART}/network",
        "snapshots": "snapshots.*",
        "templates": "templates.*",
        "volumes": "volumes.*",
        "secrets": "secrets.*",
        "teams": "teams.*",
    }.items()
}


class E2bMetrics:
    """For one event loop."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, int]] = Counter()

    def count(self, call: str, status: int) -> None:
        self._calls[call, status] += 1

    def count_unserved(self, path: str) -> None:
        """Count a call that is not served. `path` is without the prefix."""
        call = next((name for name, pattern in _CALLS.items() if pattern.fullmatch(path)), "other")
        self.count(call, 501)

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        samples = [
            ({"call": call, "status": str(status)}, float(count))
            for (call, status), count in sorted(self._calls.copy().items())
        ]
        about = "Calls of E2B's API, by call and HTTP status; 501: it is not served."
        return [Metric("waggle_e2b_calls_total", "counter", about, samples)]
