"""Moments of a recording as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.replay.moments import MomentError, Span, beyond, clock_text, duration_text, limit_of, parse

SPAN = Span(first=100.0, epoch=1_700_000_000.0)


@pytest.mark.parametrize(
    ("text", "limit", "number"),
    [
        ("+90", 190.0, None),
        ("+10m", 700.0, None),
        ("+1h30m", 5500.0, None),
        ("+1d2h3m4.5s", 100.0 + 93784.5, None),
        ("+250ms", 100.25, None),
        ("+0", 100.0, None),
        ("2023-11-14T22:15:00Z", 100.0, None),
        ("2023-11-14T23:15:30+01:00", 130.0, None),
        ("42", math.inf, 42),
        ("#42", math.inf, 42),
        ("end", math.inf, None),
    ],
)
def test_each_form(text: str, limit: float, number: int | None):
    assert limit_of(parse(text), SPAN) == (limit, number)


@pytest.mark.parametrize("text", ["", "+", "+m", "+10x", "yesterday", "-5", "1.5", "+-5", "10m", "+1e5", "9" * 70])
def test_what_is_no_moment_is_refused_with_what_was_expected(text: str):
    with pytest.raises(MomentError, match="expected a time like 2026-11-24T13:05:00Z, a time after the first event"):
        parse(text)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(MomentError, match=r"expected a time with its zone, such as 2026-11-24T13:05:00Z"):
        parse("2026-11-24T13:05:00")
    with pytest.raises(MomentError, match=r"'2026-11-24': expected a time with its zone, such as 2026-11-24T00:00:00Z"):
        parse("2026-11-24")


def test_a_time_of_day_needs_a_log_that_knows_it():
    with pytest.raises(MomentError, match="does not know the time of day; write it like \\+10m"):
        limit_of(parse("2026-11-24T13:05:00Z"), Span(100.0, None))


def test_a_time_before_the_log_names_its_beginning():
    with pytest.raises(MomentError, match="is before the log, which begins at 2023-11-14T22:15:00.000Z"):
        limit_of(parse("2023-11-14T22:14:59Z"), SPAN)


def test_there_is_no_event_0():
    with pytest.raises(MomentError, match="the first event has number 1"):
        limit_of(parse("0"), SPAN)


def test_a_moment_after_the_end_names_the_range():
    said = str(beyond(parse("+10m"), SPAN, 190.0, 7))

    assert said == (
        "+10m is after the end of the log: it has 7 events, from 2023-11-14T22:15:00.000Z to 2023-11-14T22:16:30.000Z "
        "(+1m30s); `end` is its last moment"
    )


def test_a_log_without_the_time_of_day_shows_times_after_its_first_event():
    assert clock_text(160.25, Span(100.0, None)) == "+1m0.250s"


@given(st.floats(0, 1e6))
def test_a_shown_duration_can_be_written_as_a_moment(seconds: float):
    limit, _ = limit_of(parse(f"+{duration_text(seconds)}"), Span(0.0, None))

    assert limit == pytest.approx(seconds, abs=0.001)
