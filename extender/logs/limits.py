"""Limits the log lines of one event: a burst, then one a second. The others are counted, and a line reports how many.

A caller can cause tens of thousands of bad requests a second. Each line costs time of the event loop, room on the
node's disk, and the attention of the reader. With one budget for all events, a flood would hide everything else, so
each event has its own; tracebacks, which are long, have a second one.

    a line --> has its event a line left? --yes--> written; a traceback without budget is left out of it
                 |no
               counted --> some seconds later: "log lines left out", with the counts

Promises: a line that is left out costs one table look-up; the table is bounded, as names may come from elsewhere; the
metric `waggle_log_lines_suppressed_total` counts every line that is left out.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog
from structlog.typing import EventDict

#: Lines of one event that may come at once, and seconds until there may be one more.
LINES: Final = 30
LINE_SECONDS: Final = 1.0
#: The same for the tracebacks of one event.
TRACEBACKS: Final = 5
TRACEBACK_SECONDS: Final = 10.0
#: Events that are told apart; all further ones share one budget.
EVENTS: Final = 256
OTHERS: Final = "(others)"
#: Seconds for which lines that are left out are counted before a line reports them.
SAID_AFTER: Final = 10.0

#: The field with the name of the budget if that is not the event itself. The field is not written.
BUDGET: Final = "_budget"
LEFT_OUT: Final = "log lines left out"


class _Budgets:
    """A budget for each name: `burst` at once, then one every `seconds`. One number is kept for each name."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._seconds = seconds
        self._ahead = (burst - 1) * seconds
        #: When the whole budget will be available again.
        self._full_at: dict[str, float] = {}

    def name(self, name: str) -> str:
        return name if name in self._full_at or len(self._full_at) < EVENTS else OTHERS

    def spend(self, name: str, now: float) -> bool:
        """Spend one unit if there is one left; return whether there was. `name` is as `name()` returns it."""
        full_at = max(self._full_at.get(name, now), now)
        spent = full_at - now <= self._ahead
        self._full_at[name] = full_at + self._seconds if spent else full_at
        return spent

    def names(self) -> list[str]:
        return list(self._full_at)


class LineLimiter:
    """The first of structlog's processors: raises DropEvent for a line that is left out. Thread-safe.

    `say` is called some seconds after a line was left out, in a thread of its own, with the number of such lines by
    event.
    """

    def __init__(
        self,
        say: Callable[[dict[str, int]], None] | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        said_after: float = SAID_AFTER,
    ) -> None:
        self._say = say or _say
        self._now = now
        self._said_after = said_after
        self._lock = threading.Lock()
        self._lines = _Budgets(LINES, LINE_SECONDS)
        self._tracebacks = _Budgets(TRACEBACKS, TRACEBACK_SECONDS)
        self._suppressed: Counter[str] = Counter()
        self._unsaid: Counter[str] = Counter()

    def __call__(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        given = event.pop(BUDGET, None) or event.get("event")
        if given == LEFT_OUT:
            return event
        with self._lock:
            now = self._now()
            name = self._lines.name(str(given)[:100])
            if not self._lines.spend(name, now):
                self._leave_out(name)
                raise structlog.DropEvent
            if event.get("exc_info"):
                name = self._tracebacks.name(name)
                event["traceback_left_out"] = not self._tracebacks.spend(name, now)
        return event

    def _leave_out(self, name: str) -> None:
        """Count a line. Call it under the lock."""
        self._suppressed[name] += 1
        if not self._unsaid:
            timer = threading.Timer(self._said_after, self.say)
            timer.daemon = True
            timer.start()
        self._unsaid[name] += 1

    def say(self) -> None:
        """Report the lines that were left out since the last report, if any were."""
        with self._lock:
            unsaid, self._unsaid = dict(self._unsaid.most_common()), Counter()
        if unsaid:
            self._say(unsaid)

    def suppressed(self) -> dict[str, int]:
        """How many lines were left out so far, for every event that has had a line."""
        with self._lock:
            return {name: self._suppressed[name] for name in self._lines.names()}


def _say(counts: dict[str, int]) -> None:
    structlog.get_logger(__name__).warning(LEFT_OUT, count=sum(counts.values()), events=counts)
