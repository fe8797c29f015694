"""The console scripts `waggle` and `kubectl-waggle`.

A Ctrl-C while the program is still being loaded ends it as a later one does: with status 130, and without a traceback.
A command that is done ends, also if a plug-in has started threads that do not.
"""

from __future__ import annotations

import os
import sys
import threading

#: Of a program that Ctrl-C ends: docs/exit-status.md.
_INTERRUPTED = 130
#: Seconds that threads have to end after the command.
_PATIENCE = 5.0


def main() -> None:
    """The console script `waggle`."""
    _run("main")


def kubectl_main() -> None:
    """The plug-in of kubectl, `kubectl waggle`."""
    _run("kubectl_main")


def _run(name: str) -> None:
    status: object = 1
    try:
        from extender import cli

        getattr(cli, name)()
        status = 0
    except KeyboardInterrupt:
        status = _INTERRUPTED
        raise SystemExit(_INTERRUPTED) from None
    except SystemExit as ended:
        status = ended.code
        raise
    finally:
        if _left():
            threading.Thread(target=_end, args=(status,), name="waggle-end", daemon=True).start()


def _left() -> list[threading.Thread]:
    """The threads for which Python would wait, for ever if need be."""
    return [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]


def _end(status: object) -> None:
    """End the process if threads do not end by themselves, and say which."""
    deadline = threading.Event()
    deadline.wait(_PATIENCE)
    if left := ", ".join(ascii(each.name) for each in _left()):
        sys.stderr.write(f"threads that a plug-in has started do not end, and are ended: {left[:1000]}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)
