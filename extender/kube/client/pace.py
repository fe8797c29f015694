"""Leaves half of the interpreter's time to other threads: decoding a flood would otherwise keep it busy.

    works --longer than a moment without waiting--> rests for as long as it worked --> works

A thread that waits for the server now and then, as usual in a cluster, never rests. A flood (a list of everything, a
server that never stops sending) is read at half speed, and so the server can send no faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds of work after which the thread rests, and the longest rest.
_MOMENT, _LONGEST_REST = 0.005, 0.1


class Pace:
    """Paces one thread. `clock` returns seconds; `sleep` takes them."""

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._worked = 0.0
        self._since = clock()

    def waits(self) -> None:
        """The thread is about to wait for the server."""
        self._count()

    def goes_on(self) -> None:
        """Data has arrived. The time of the wait counts as a rest."""
        now = self._clock()
        self._worked = max(0.0, self._worked - (now - self._since))
        self._since = now

    def rest(self) -> bool:
        """Rest if it is time to. Called in the middle of the work; returns whether it rested."""
        self._count()
        if self._worked <= _MOMENT:
            return False
        self._sleep(min(self._worked, _LONGEST_REST))
        self._worked, self._since = 0.0, self._clock()
        return True

    def _count(self) -> None:
        now = self._clock()
        self._worked += now - self._since
        self._since = now
