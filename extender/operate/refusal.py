"""How every command says that it cannot go on: one line on standard error, and exit status 2."""

from __future__ import annotations

import typer

from extender.logs.printable import printable
from extender.operate.output import remark

#: Characters of a message: what it quotes may have any length.
_LONGEST = 8000


def refuse(error: Exception) -> typer.Exit:
    """Says why; the exit is to be raised. Who does not read on (`| head`) is told nothing: raises BrokenPipeError."""
    if isinstance(error, BrokenPipeError):
        raise error
    remark(printable(text_of(error), _LONGEST, keep="\n"), title="waggle", style="red")
    return typer.Exit(2)


def text_of(error: Exception) -> str:
    """Return what is wrong, with the name of the file if it is about one."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
