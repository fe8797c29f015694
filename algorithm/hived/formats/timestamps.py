"""Formats a given time as Kubernetes writes it. Nothing here reads a clock."""

from __future__ import annotations

_DAY = 86_400
#: Days of 400 years, after which the calendar repeats itself; of 100, 4 and one.
_ERA, _CENTURY, _FOUR, _YEAR = 146_097, 36_524, 1_461, 365
#: Days from 0000-03-01, where the calendar's arithmetic begins, to 1970-01-01.
_TO_1970 = 719_468


def rfc3339(seconds: float) -> str:
    """Seconds since 1970 as `2006-01-02T15:04:05Z`, fractions cut off; from year 0 on."""
    days, second = divmod(int(seconds // 1), _DAY)
    era, day = divmod(days + _TO_1970, _ERA)
    # Years begin in March, so that a leap day is the last one.
    year = (day - day // (_FOUR - 1) + day // _CENTURY - day // (_ERA - 1)) // _YEAR
    day -= year * _YEAR + year // 4 - year // 100
    month = (5 * day + 2) // 153
    date = (era * 400 + year + (month >= 10), (month + 2) % 12 + 1, day - (153 * month + 2) // 5 + 1)
    clock = (second // 3600, second // 60 % 60, second % 60)
    return "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z".format(*date, *clock)
