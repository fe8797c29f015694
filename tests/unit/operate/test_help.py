"""--help shows every option whole, at any width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from extender.cli import app


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Every command with the names of its options."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            options = [each for each in command.params if each.param_type_name == "option"]
            yield (*path, name), [name for each in options for name in (*each.opts, *each.secondary_opts)]


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_every_kind_of_command_is_found() -> None:
    assert {("serve",), ("lint", "file"), ("lint", "pool"), ("hived", "init")} <= set(COMMANDS)


@pytest.mark.parametrize("columns", [80, 139, 140])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_option_is_cut(command: tuple[str, ...], columns: int) -> None:
    environment = {"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)}
    shown = CliRunner().invoke(app, [*command, "--help"], env=environment)
    assert shown.exit_code == 0
    assert "…" not in shown.output
    assert [option for option in COMMANDS[command] if option not in shown.output] == []
    assert "**" not in shown.output


@pytest.mark.parametrize("command", [["plan"], ["plan", "make"], ["lint"]])
def test_usage_names_the_command_as_it_was_typed(command: list[str]) -> None:
    """`waggle plan` runs `waggle plan make`, which nobody has typed."""
    shown = CliRunner().invoke(app, [*command, "--help"], prog_name="waggle").stdout
    assert f"Usage: waggle {' '.join(command)} [OPTIONS]" in " ".join(shown.split())
