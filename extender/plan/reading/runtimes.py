"""How long a pod says that it runs, as a range in seconds: `waggle.dev/expected-seconds: "600"` or `"600-900"`.

It may stand on the pod, its template, the workload, or the object above; the nearest one counts. A deadline
(`activeDeadlineSeconds`) is the upper end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

EXPECTED = "waggle.dev/expected-seconds"
#: Ten years.
_MOST = 315_360_000.0
_RANGE = re.compile(r"\s*([0-9]{1,10}(?:\.[0-9]{1,6})?)\s*(?:-\s*([0-9]{1,10}(?:\.[0-9]{1,6})?)\s*)?", re.ASCII)

Seconds = tuple[float, float]


class RunTimeFault(ValueError):  # noqa: N818 - a finding about somebody's file
    """The annotation cannot be read. The message says what was expected."""


def parse_seconds(text: str) -> Seconds:
    """Return the range in the text of the annotation. Raises RunTimeFault."""
    found = _RANGE.fullmatch(text)
    low = float(found[1]) if found else -1.0
    high = float(found[2]) if found and found[2] else low
    if not 0 <= low <= high <= _MOST:
        raise RunTimeFault(
            f"annotation {EXPECTED}: expected seconds, as 600, or a range, as 600-900 (at most {_MOST:.0f}), "
            f"got {text[:100]!r}"
        )
    return low, high


def expected_seconds(nearest_first: Iterable[Mapping[str, str]], deadline: float) -> Seconds | None:
    """Return how long a pod runs by these annotations and its deadline (0: none); None if nothing says it.

    Raises RunTimeFault.
    """
    text = next((each[EXPECTED] for each in nearest_first if EXPECTED in each), None)
    if text is None:
        return (0.0, deadline) if deadline else None
    low, high = parse_seconds(text)
    return (min(low, deadline), min(high, deadline)) if deadline else (low, high)
