"""Times are written as Kubernetes writes them."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from algorithm.hived.formats.timestamps import rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399.999, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
    ],
)
def test_seconds_since_1970_are_a_time_in_utc(seconds, text):
    assert rfc3339(seconds) == text


@given(st.integers(-62_135_596_800, 253_402_300_799))
@example(-62_135_596_800)
def test_it_is_the_calendar_of_everybody(seconds):
    assert rfc3339(seconds) == datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
