from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from extender.core.timestamps import timestamp


@given(st.floats(0, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()))
def test_it_is_the_standard_librarys_time(epoch):
    assert timestamp(epoch) == datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
