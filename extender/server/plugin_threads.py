"""Notices threads that a plug-in starts in a live server: the contract has none, and what one does is in no recording.

From `notice` on, each start of a thread looks for code of a plug-in on the stack. So a thread of a library that the
plug-in calls (a pool) counts, too. It costs the calls of a plug-in nothing, and the start of a thread microseconds.
Nothing is refused. Not noticed: threads of extension modules; sockets, since each connection to the server is one. A
call that waits for a socket for long is slow, and then the watchdog shows its stack.
"""

from __future__ import annotations

import sys
import threading
from functools import wraps
from typing import Final, NamedTuple

from algorithm.no_forks import frame_of_plugin

#: Threads that are kept: one of each line of code that starts some.
MOST: Final = 16
#: Characters of a name.
_LONGEST: Final = 100


class PluginThread(NamedTuple):
    """The first thread that a line of a plug-in has started."""

    module: str
    name: str
    at: str

    def __str__(self) -> str:
        return f"plug-in {self.module} has started a thread, {self.name} ({self.at})"


_found: dict[str, PluginThread] = {}


def known() -> list[PluginThread]:
    """Return what was noticed so far, in this order."""
    return list(_found.values())


def notice() -> None:
    """Notice what plug-ins start from now on, in this process. Idempotent."""
    start = threading.Thread.start
    if hasattr(start, "__wrapped__"):
        return

    @wraps(start)
    def noticed(thread: threading.Thread) -> None:
        frame = frame_of_plugin(sys._getframe(1))
        if frame is not None and len(_found) < MOST:
            at = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            module = str(frame.f_globals.get("__name__", ""))
            _found.setdefault(at, PluginThread(module, str(thread.name)[:_LONGEST], at))
        start(thread)

    threading.Thread.start = noticed  # type: ignore[assignment, method-assign]
