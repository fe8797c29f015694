"""Returns memory to the system after much of it was held for clients.

glibc keeps freed memory for its own next use. After a flood of bodies of 120 KB, 140 MiB stayed with the process,
although nothing was held any more. `malloc_trim` returns that memory. It is called in a thread of its own when the
budgets (budget.py) have held much and hold little now. Other C libraries have no such call, and nothing is done there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from threading import Thread
from typing import Final

from extender.web.limits.budget import Budgets

#: Bytes that count as much. What is left of less is not worth a call.
MUCH: Final = 32 << 20
#: Seconds between two checks.
LOOK_SECONDS: Final = 1.0


class Trimmer:
    """Watches the budgets of one server. `trim` returns the memory; it may take some 10 ms, in its own thread."""

    def __init__(self, budgets: Budgets, trim: Callable[[], None] | None = None) -> None:
        self._budgets = budgets
        self._trim = trim or _malloc_trim
        self._thread: Thread | None = None

    def look(self) -> None:
        """Check the budgets; call this every LOOK_SECONDS. Trims once after each time that much was held."""
        used = sum(budget.used for budget in self._budgets)
        peak = sum(budget.peak for budget in self._budgets)
        if peak < MUCH or used > peak // 4 or self._is_trimming():
            return
        for budget in self._budgets:
            budget.peak = budget.used
        self._thread = Thread(target=self._trim, name="waggle-trim", daemon=True)
        self._thread.start()

    def _is_trimming(self) -> bool:
        return self._thread is not None and self._thread.is_alive()


def _malloc_trim() -> None:
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
