"""Times as objects of the API server have them. Pure: an engine may not ask a clock, or a time zone."""

from __future__ import annotations

_DAY = 86_400


def timestamp(epoch: float) -> str:
    """Seconds since 1970 as RFC 3339 in whole seconds and UTC, as metav1.Time is: years 1970 to 9999.

    The calendar: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`. Its years begin in
    March, so that a leap day is the last one.
    """
    days, seconds = divmod(int(epoch), _DAY)
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month += 3 if month < 10 else -9
    year += 400 * era + (month <= 2)
    hours, seconds = divmod(seconds, 3_600)
    return f"{year:04}-{month:02}-{day + 1:02}T{hours:02}:{seconds // 60:02}:{seconds % 60:02}Z"
