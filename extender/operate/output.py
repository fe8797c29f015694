"""How commands write to a terminal: text that may come from a cluster or from somebody else's file does nothing there.

Names of pods and nodes, messages of API servers and values of YAML files are shown with their controls escaped.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import typer

from extender.logs.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, *, nl: bool = True) -> None:
    """Write a text of several lines to standard output. `nl`: with a line break at its end."""
    typer.echo(printable(text, keep="\n"), nl=nl)


def remark(text: str, *, title: str = "", style: str = "") -> None:
    """Write a text of several lines to standard error, after a `title` that has a `style` of rich."""
    begin = f"[{style}]{title}:[/{style}] " if title else ""
    _errors().print(begin + as_markup(text), soft_wrap=True)


@cache
def _errors() -> Console:
    from rich.console import Console  # noqa: PLC0415 - most commands, `serve` above all, write nothing with it

    return Console(stderr=True, highlight=False)


def as_markup(text: str) -> str:
    """A text as rich is to show it: nothing in it is markup, nothing controls the terminal."""
    from rich.markup import escape  # noqa: PLC0415 - as above

    return escape(printable(text, keep="\n"))
