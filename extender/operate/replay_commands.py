"""`waggle replay`: makes all decisions of a recording again.

Exit status: 0 they are the same; 1 the log cannot be used; 2 one of them differs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from extender.operate.output import say
from extender.operate.plan_options import StrictCommand, fail

LogArgument = Annotated[
    Path, typer.Argument(metavar="LOG", help="The folder of `serve --record`, one of its segments, or what was cut.")
]


def add_replay_command(app: typer.Typer) -> None:
    """Make it a command of `app`."""
    app.command("replay", cls=StrictCommand)(replay)


def replay(log: LogArgument) -> None:
    """Make all decisions of a recording again, at their recorded times but without waiting, and compare them.

    Says that every decision is the same, or shows the first that differs: the event, both decisions with their reasons,
    and the history of the pod. A log of an older release replays, too, unless it says why not.

        waggle serve --record /var/lib/waggle/record
        waggle replay /var/lib/waggle/record

    Exit status: 0 all the same; 1 the log cannot be used; 2 a decision differs.
    """
    from algorithm.registry import AlgorithmError
    from extender.operate.replay_check import check
    from extender.recording.log import open_log
    from extender.recording.records import RecordingError

    try:
        status = check(open_log(log), say)
    except (AlgorithmError, RecordingError, OSError) as error:
        raise fail(error) from error
    raise typer.Exit(status)
