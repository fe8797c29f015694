"""How every command says that it does not go on, in one line on standard error: exit status 2, or 130 after Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from extender.logs.printable import printable
from extender.operate.output import remark

#: Characters of a message: what it quotes may have any length.
_LONGEST = 8000
#: Exit status of a command that was ended by Ctrl-C.
INTERRUPTED = 130


def refuse(error: Exception) -> typer.Exit:
    """Says why; the exit is to be raised. Who does not read on (`| head`) is told nothing: raises BrokenPipeError."""
    if isinstance(error, BrokenPipeError):
        raise error
    remark(printable(text_of(error), _LONGEST, keep="\n"), title="waggle", style="red")
    return typer.Exit(2)


@contextmanager
def stopped_by_ctrl_c() -> Iterator[None]:
    """Say so, and end the command, if Ctrl-C comes within this."""
    try:
        yield
    except KeyboardInterrupt:
        remark("stopped")
        raise typer.Exit(INTERRUPTED) from None


def text_of(error: Exception) -> str:
    """Return what is wrong, with the name of the file if it is about one."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
