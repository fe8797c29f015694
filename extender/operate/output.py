"""How commands write to a terminal: text that may come from a cluster or from somebody else's file does nothing there.

Names of pods and nodes, messages of API servers and values of YAML files are shown with their controls escaped. A text
of several lines is made of such names, so each is made printable first (`printed`): a name has no line of its own.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from extender.logs.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, *, nl: bool = True) -> None:
    """Write a text of several lines to standard output. `nl`: with a line break at its end."""
    typer.echo(printable(text, keep="\n"), nl=nl)


def say_json(text: str, *, nl: bool = True) -> None:
    """Write JSON to standard output, with what is not printable as JSON escapes it: it is the same JSON."""
    shown = text if text.replace("\n", "").isprintable() else "".join(map(_json_character, text))
    typer.echo(shown, nl=nl)


def _json_character(each: str) -> str:
    if each.isprintable() or each == "\n":
        return each
    return "".join(f"\\u{unit:04x}" for unit in memoryview(each.encode("utf-16-le", "surrogatepass")).cast("H"))


def printed(value: Any) -> Any:
    """Return a value as JSON has it, with all texts printable on one line: a name has no line break in it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printed(key): printed(each) for key, each in value.items()}
    return [printed(each) for each in value] if isinstance(value, list) else value


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
