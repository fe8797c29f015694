"""`waggle new-algorithm FOLDER`: writes a package with an algorithm, to be changed into another one.

Exit status: 0 written; 2 it cannot be written.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from extender.operate.output import say
from extender.operate.refusal import refuse


def add_new_algorithm_command(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("new-algorithm")(new_algorithm)


def new_algorithm(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write it: a new or an empty folder.")],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the algorithm and its package. Default: the folder's name.")
    ] = "",
) -> None:
    """Write an installable package with a scheduling algorithm of 40 lines, its tests, and a workload to simulate.

    docs/plugin-authors.md continues from there. It changes no existing file.

    Exit status: 0 written; 2 it cannot be written.
    """
    from extender.operate.scaffold.writing import ScaffoldError, name_for, write

    chosen = name or name_for(folder)
    try:
        paths = write(folder, chosen)
    except (ScaffoldError, OSError) as error:
        asks = isinstance(error, ScaffoldError) and not name and repr(chosen) in str(error)
        raise refuse(ScaffoldError(f"{error} (--name)") if asks else error) from error
    say(f"algorithm {chosen} in {folder}:")
    say("".join(f"  {path}\n" for path in paths))
    say(
        f"Next, in the environment of this Waggle ({sys.prefix}):\n"
        f"  cd {shlex.quote(str(folder))}\n"
        f"  pip install -e '.[test]'\n"
        f"  pytest\n"
        f"  waggle simulate --trace trace.json --algorithm {chosen} --settings {chosen}=waggle.yaml --algorithm packing"
    )
