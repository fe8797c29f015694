from __future__ import annotations

import pytest

from extender.embedded.apiserver.ages import age, human


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (3599, "59m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 180, "5h3m"),
        (47 * 3600, "47h"),
        (49 * 3600, "2d1h"),
        (30 * 86400, "30d"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_are_shown_as_by_kubectl(seconds: int, shown: str) -> None:
    assert human(seconds) == shown


def test_ages_count_from_a_time_or_are_unknown() -> None:
    assert age("1970-01-01T00:00:10Z", 30) == "20s"
    assert age("", 30) == "<unknown>"
