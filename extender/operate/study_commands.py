"""`waggle simulate --study NAME`: an experiment of ours as one command.

Exit status: 0 its first statement holds; 1 it does not; 2 it cannot be run, or a file not be written.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from extender.operate.output import say
from extender.operate.output_files import check_outputs, write_output
from extender.operate.refusal import refuse


class StudyName(StrEnum):
    """The studies."""

    SHARING = "sharing"


def run_study(study: StudyName, *, days: float | None, seed: int | None, svg: Path | None) -> typer.Exit:
    """Run a study, print its table and write its figure. Returns the exit, to be raised."""
    from extender.lab.studies.sharing import study as sharing  # noqa: PLC0415 - only this command needs it

    assert study is StudyName.SHARING
    try:
        check_outputs([("--svg", svg)], [])
        found = sharing.run(sharing.DAYS if days is None else days, sharing.SEED if seed is None else seed)
        say(found.text)
        if svg is not None:
            write_output(svg, found.figure)
    except (OSError, ValueError) as error:
        return refuse(error)
    return typer.Exit(0 if found.holds else 1)
