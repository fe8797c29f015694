"""Keeps standard output to what a command says: what an algorithm prints there goes to standard error.

With a `print` of an algorithm in it, a result on standard output would be no JSON. The algorithm may print, write to
the descriptor, start programs that do, or close its stream: the command has its own stream back afterwards.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_OUTPUT, _ERROR = 1, 2


@contextmanager
def prints_on_stderr() -> Iterator[None]:
    """Within this, standard output is standard error, also for processes that are started."""
    stdout = sys.stdout
    if stdout is None:  # the command was started without one, so its descriptor may be that of another file
        yield
        return
    stdout.flush()
    try:
        kept = os.dup(_OUTPUT)
        stream = os.fdopen(os.dup(_ERROR), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        os.dup2(_ERROR, _OUTPUT)
    except OSError:  # one of them is closed
        yield
        return
    try:
        with contextlib.redirect_stdout(stream):
            yield
    finally:
        for ends in (stdout.flush, stream.close):
            with contextlib.suppress(OSError, ValueError):  # it may have closed them
                ends()
        os.dup2(kept, _OUTPUT)
        os.close(kept)
