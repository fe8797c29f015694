"""A moment of a recording, as people write it, and where it is in the log.

    +10m, +1h30m, +90      so long after the first event (a number alone: seconds)
    2026-11-24T13:05:00Z   at this time; needs a log that knows the time of day
    1234, #1234            right after the event of this number
    end                    right after the last event

A time includes all events up to it. Promises: a text that is no moment, and a moment outside of the log, are refused
with what was expected, or with the range of the log.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import NamedTuple

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"\+(?=\d)(?:\d+(?:\.\d+)?(?:d|h|ms|m|s))*(?:\d+(?:\.\d+)?)?")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)?")
_NUMBER = re.compile(r"#?(\d{1,18})")
#: Characters of a moment.
_LONGEST = 64
_EXPECTED = (
    "expected a time like 2026-11-24T13:05:00Z, a time after the first event like +10m or +1h30m, the number of an "
    "event, or end"
)


class MomentError(ValueError):
    """The text is no moment, or the log does not have this moment."""


class Moment(NamedTuple):
    """One of: `offset` seconds after the first event, `wall` seconds since 1970, right after event `number`, the end.

    `text` is as it was written.
    """

    text: str
    offset: float | None = None
    wall: float | None = None
    number: int | None = None


class Span(NamedTuple):
    """What is known of a log when a moment is looked for: the time of the first event, seconds of the log's own clock;
    and seconds since 1970 when that clock showed 0, None if the log does not say that."""

    first: float
    epoch: float | None


def parse(text: str) -> Moment:
    """Return the moment. Raises MomentError."""
    written = text.strip()
    if len(written) > _LONGEST:
        raise MomentError(f"{written[:_LONGEST]!r}...: {_EXPECTED}")
    if written == "end":
        return Moment(written)
    if found := _NUMBER.fullmatch(written):
        return Moment(written, number=int(found[1]))
    if len(written) > 1 and _DURATION.fullmatch(written):
        return Moment(written, offset=_seconds(written))
    try:
        at = datetime.fromisoformat(written)
    except ValueError as error:
        raise MomentError(f"{written!r}: {_EXPECTED}") from error
    if at.tzinfo is None:
        said = at.isoformat()
        raise MomentError(f"{written!r}: expected a time with its zone, such as {said}Z or {said}+01:00")
    return Moment(written, wall=at.timestamp())


def _seconds(written: str) -> float:
    return math.fsum(float(number) * _UNITS[unit or "s"] for number, unit in _PART.findall(written))


def limit_of(moment: Moment, span: Span) -> tuple[float, int | None]:
    """Return the time up to which events count, and the number of the last one, None if only the time matters.

    Raises MomentError if the log does not know the time of day, or begins later.
    """
    if moment.number is not None:
        if moment.number == 0:
            raise MomentError("0: the first event has number 1")
        return math.inf, moment.number
    if moment.offset is not None:
        return span.first + moment.offset, None
    if moment.wall is None:
        return math.inf, None
    if span.epoch is None:
        raise MomentError(f"{moment.text}: this log does not know the time of day; write it like +10m")
    limit = moment.wall - span.epoch
    if limit < span.first:
        raise MomentError(f"{moment.text} is before the log, which begins at {clock_text(span.first, span)}")
    return limit, None


def beyond(moment: Moment, span: Span, last: float, number: int) -> MomentError:
    """Return what to say if the log ends before the moment: `last` and `number` are those of its last event."""
    until = f"it has {number} events, from {clock_text(span.first, span)} to {clock_text(last, span)}"
    lasts = duration_text(last - span.first)
    return MomentError(f"{moment.text} is after the end of the log: {until} (+{lasts}); `end` is its last moment")


def clock_text(at: float, span: Span) -> str:
    """Return a time of the log's clock: as RFC 3339 if the log knows the time of day, else after the first event."""
    if span.epoch is None:
        return f"+{duration_text(at - span.first)}"
    return datetime.fromtimestamp(span.epoch + at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(seconds: float) -> str:
    """Return seconds as they may be written in a moment, without their plus: 1h2m3.500s."""
    milli = round(seconds * 1000)
    whole, milli = divmod(milli, 1000)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest}.{milli:03}s" if milli else f"{rest}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
