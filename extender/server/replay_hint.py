"""How to replay what went wrong: the text that stands beside a fault of the algorithm in the log and in `/readyz`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path


def not_recorded(number: int) -> str:  # noqa: ARG001 - no event can be replayed
    """How to switch a recording on: without one, nothing can be replayed."""
    return "not recorded; `waggle serve --record FOLDER` records"


def recorded_in(record: Path) -> Callable[[int], str]:
    """Return the function that returns the command which shows the moment of an event, by the event's number."""

    def command(number: int) -> str:
        return f"waggle replay {shlex.quote(str(record))} --at {number}"

    return command
