"""How to replay what went wrong: the text that stands beside a fault of the algorithm in the log and in `/readyz`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path


def not_recorded(number: int) -> str:  # noqa: ARG001 - no event can be replayed
    """How to switch a recording on: without one, nothing can be replayed."""
    return "not recorded; `waggle serve --record FOLDER` records"


def recorded_in(record: Path, file_of: Callable[[int], str] = lambda _: "") -> Callable[[int], str]:
    """Return the function that returns the command which shows the moment of an event, by the event's number.

    `file_of` returns the name of the file that has the event, "" if it is not known. It follows as a comment of the
    shell: after a restart, the folder has several recordings, and the command alone shows the latest.
    """

    def command(number: int) -> str:
        file = file_of(number)
        return f"waggle replay {shlex.quote(str(record))} --at {number}" + (f" # {file}" if file else "")

    return command
