"""Durations as kubectl shows them: 7s, 2m5s, 5h3m, 3d. Follows k8s.io/apimachinery pkg/util/duration HumanDuration."""

from __future__ import annotations

from datetime import datetime

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(since: str, now: float) -> str:
    """From an RFC 3339 time to `now` in Unix seconds; `<unknown>` if there is no such time."""
    try:
        return human(now - datetime.fromisoformat(since).timestamp())
    except ValueError:
        return "<unknown>"


def human(seconds: float) -> str:
    """The largest unit, and the next smaller one while that still says something."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 2 * _MINUTE:
        return f"{max(total, 0)}s"
    for until, unit, letter, smaller, small_letter in (
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    ):
        if total < until:
            rest = total % unit // smaller if smaller else 0
            return f"{total // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{total // _YEAR}y"
