"""How commands write to a terminal: text that may come from a cluster or from somebody else's file does nothing there.

Names of pods and nodes, messages of API servers and values of YAML files are shown with their controls escaped.
"""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape

from extender.logs.printable import printable

_errors = Console(stderr=True, highlight=False)


def say(text: str, *, nl: bool = True) -> None:
    """Write a text of several lines to standard output. `nl`: with a line break at its end."""
    typer.echo(printable(text, keep="\n"), nl=nl)


def remark(text: str, *, title: str = "", style: str = "") -> None:
    """Write a text of several lines to standard error, after a `title` that has a `style` of rich."""
    begin = f"[{style}]{title}:[/{style}] " if title else ""
    _errors.print(begin + as_markup(text), soft_wrap=True)


def as_markup(text: str) -> str:
    """A text as rich is to show it: nothing in it is markup, nothing controls the terminal."""
    return escape(printable(text, keep="\n"))
