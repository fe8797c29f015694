"""How long the API server has been silent: one answer for /readyz, pages and people.

A watch that works says something at least once a minute (a bookmark), so a longer silence means that decisions rest on
an old state. A request that fails shows it earlier. The metric `waggle_watch_staleness_seconds`, which the
alert WaggleWatchStale reads, is the same clock without the two limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from extender.kube.informers.reflector import Reflector

#: Seconds without a word after which a watch counts as silent: bookmarks come about once a minute.
QUIET: Final = 90.0
#: The same while requests for this resource fail. A restart of an API server behind a load balancer takes less.
FAILING: Final = 10.0


class ApiSilence:
    """The silence of the API server, as these informers hear it. Thread-safe."""

    def __init__(self, informers: Sequence[Reflector[Any]]) -> None:
        self._informers = informers

    def seconds(self) -> float:
        """Seconds since the API server was last heard, of the resource that has the longest silence; 0.0 if all are
        heard, and before the first lists are complete."""
        return max(map(_silence, self._informers))

    def readiness_warning(self) -> str:
        """The warning for /readyz; "" if the API server is not silent."""
        silent = max(self._informers, key=_silence)
        seconds = _silence(silent)
        if not seconds:
            return ""
        why = f" ({silent.last_error})" if silent.failing else ""
        return f"API server silent for {seconds:.0f} s: {silent.name} are as they were then{why}"


def _silence(informer: Reflector[Any]) -> float:
    age = informer.last_contact_age()
    return age if informer.synced.is_set() and age >= (FAILING if informer.failing else QUIET) else 0.0
