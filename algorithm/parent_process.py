"""Ends a process with the one that started it, however that ends: on Linux also by SIGKILL."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: Of <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Have Linux send this signal to this process once the thread that started it has ended. Call it in the new
    process, as early as possible, or as its `preexec_fn`.

    `parent` is the number of the process that started this one. If that has ended already, this one ends at once: Linux
    would not tell it any more.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, how)
    if os.getppid() != parent:
        os._exit(1)
