"""`--help` that can be read in a narrow terminal.

Typer draws options as a table of up to six columns. Where the terminal is too narrow for it, names of options are cut
("--managed-reso…"), and cannot be looked up or copied. There, options are listed one below the other instead.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

#: Columns that the widest table of ours needs.
_TABLE_COLUMNS = 140


class HelpCommand(TyperCommand):
    """A command whose help shows all options at any width."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if shutil.get_terminal_size().columns >= _TABLE_COLUMNS:
            super().format_help(ctx, formatter)
            return
        plain = copy.copy(self)
        # An indented paragraph is an example, whose lines stay as they are: for click that is one after a \b.
        plain.help = (self.help or "").replace("**", "").replace("\n\n    ", "\n\n\b\n    ")
        super(TyperCommand, plain).format_help(ctx, formatter)


class App(typer.Typer):
    """A `typer.Typer` whose commands show all of their options at any width."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"rich_markup_mode": "markdown", "no_args_is_help": True, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": HelpCommand, **settings})


def first_is(command: str) -> type[TyperGroup]:
    """A group that runs this command of its own where none is named: `lint FILE` is `lint file FILE`."""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            named = bool(args) and args[0] in self.commands
            self.commands[command].context_class = typer.Context if named else _Unnamed
            return super().parse_args(ctx, args if named else [command, *args])

    return Group


class _Unnamed(typer.Context):
    """Of a command that was not named: help and errors do not name it either."""

    @property
    def command_path(self) -> str:
        assert self.parent is not None
        return self.parent.command_path
