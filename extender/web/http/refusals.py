"""Counts the requests that `doors.py` refuses, and logs each kind of each client once in a while."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import structlog

from extender.server.views import Metric

_log = structlog.get_logger(__name__)

#: Seconds between two log lines about the same refusal.
_LOG_SECONDS: Final = 600.0
#: Refused clients that are remembered as logged; the log as a whole has limits of its own.
_MOST_LOGGED: Final = 256
_REASONS: Final = ("host", "origin", "page_clients", "site", "verb_clients")


class Refusals:
    """Counts refused requests, and logs each kind of each client once in a while."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))
        self._logged_at: dict[tuple[str, str], float] = {}

    def add(self, reason: str, who: str, address: str) -> None:
        self._counts[reason] += 1
        now, logged_at = time.monotonic(), self._logged_at.get((reason, who), float("-inf"))
        if now - logged_at >= _LOG_SECONDS:
            if len(self._logged_at) >= _MOST_LOGGED:
                del self._logged_at[next(iter(self._logged_at))]
            self._logged_at[reason, who] = now
            _log.warning("a request was refused", reason=reason, who=who, address=address)

    def metrics(self) -> list[Metric]:
        samples = [({"reason": reason}, float(count)) for reason, count in sorted(self._counts.items())]
        what = "Requests that were refused because of who sent them, by what was wrong."
        return [Metric("waggle_requests_refused_total", "counter", what, samples)]
