"""Refuses `os.fork` and `os._exit` to plug-ins.

A copy of the process would go on where the plug-in returns: it would decide, write and serve everything once more, and
copy itself again at the next decision, until the machine has no memory left. So `os.fork` and `os.forkpty` raise
PermissionError in code of a plug-in, and in what it calls (`multiprocessing` with the method "fork"). That is a fault
of the plug-in as any other exception is. Starting another program is not refused.

`os._exit` would end a server, a replay or a simulation at once, with the status that the plug-in chooses: 0 says that
all decisions are the same, or that all was simulated. It raises PermissionError, too.

It stops careless code. It is no sandbox: an extension module gets past it. Nothing else becomes slower.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Final

_COPIED: Final = (
    "a copy of this process would decide everything once more; start another program (subprocess), or compute here"
)
_ENDED: Final = "it would end this process at once, whatever it is doing; raise an exception"
#: The calls, and why they are refused.
_CALLS: Final = {"fork": _COPIED, "forkpty": _COPIED, "_exit": _ENDED}
#: Ends this process at once, whoever asks.
end_process: Final = os._exit
#: The packages and modules of plug-ins that were imported, each with a dot at its end.
_refused: set[str] = set()


def refuse_forks_in(module: str) -> None:
    """Refuse them in the package of this module, from now on. Call it before the module is imported, so that
    `from os import fork` gets the function that refuses."""
    if not _refused:
        for name, why in _CALLS.items():
            if hasattr(os, name):
                setattr(os, name, _refusing(getattr(os, name), name, why))
    package, _, _ = module.rpartition(".")
    _refused.add(f"{package or module}.")


def _refusing(call: Callable[..., object], name: str, why: str) -> Callable[..., object]:
    @wraps(call)
    def asked(*arguments: object, **named: object) -> object:
        if (module := _plugin_that_asks()) is not None:
            sys.audit(f"os.{name}")  # the conformance kit notices who asks for it
            raise PermissionError(f"os.{name} in plug-in {module}: {why}")
        return call(*arguments, **named)

    return asked


def _plugin_that_asks() -> str | None:
    """The module of a plug-in that is being called in this thread; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if any(f"{module}.".startswith(each) for each in _refused):
            return module
        frame = frame.f_back
    return None
