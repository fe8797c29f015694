"""The options of `waggle plan` and `waggle apply`, and what their values mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.operate.help import HelpCommand
from extender.operate.output import remark
from extender.operate.refusal import text_of

if TYPE_CHECKING:
    from extender.ordering.records import Target
    from extender.plan.records import Sign

#: Exit status: an error; something waits or is evicted (of `apply`: the plan does not hold any more).
ERROR, WAITS = 1, 2
#: Bounds of what is given on a command line.
_MOST_PRIORITY = 2**31 - 1
_COLORS = {"+": "green", "~": "yellow", "-": "red", "?": "magenta"}


class PlanFormat(StrEnum):
    """How a plan is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    SVG = "svg"
    DOT = "dot"


NamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of objects that name none. Default: kubectl's."),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The cluster. Default: kubectl's own kubeconfig.")
]
ContextOption = Annotated[str | None, typer.Option(metavar="NAME", help="The context of the kubeconfig.")]
ServerOption = Annotated[
    str | None, typer.Option(metavar="URL", help="The API server, without authentication: http://127.0.0.1:PORT.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The configuration that Waggle runs with (waggle.yaml)."),
]
SchedulerOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="kube-scheduler's own configuration. Default: one that asks Waggle.")
]


class StrictCommand(HelpCommand):
    """A command whose status is 1 if it is called wrongly: 2 says that something waits."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _status_of_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _status_of_errors():
            return super().invoke(ctx)


@contextmanager
def _status_of_errors() -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        if getattr(error, "exit_code", 0) == WAITS:
            error.exit_code = ERROR
        raise


def fail(error: Exception) -> typer.Exit:
    """Say what is wrong on standard error; the exit is to be raised."""
    remark(text_of(error), title="waggle", style="red")
    return typer.Exit(ERROR)


def target_of(text: str, option: str, namespace: str) -> Target:
    """Return the object that KIND/NAME or KIND/NAMESPACE/NAME names. Raises typer.BadParameter."""
    from extender.plan.reading.targets import TargetError, read_target

    try:
        return read_target(text, namespace)
    except TargetError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def priority_of(text: str, namespace: str) -> tuple[Target, int]:
    """Return the object and the number of KIND/NAME=NUMBER. Raises typer.BadParameter."""
    name, equals, number = text.rpartition("=")
    digits = number.removeprefix("-")
    if not equals or not digits.isascii() or not digits.isdecimal() or len(digits) > 10 or int(digits) > _MOST_PRIORITY:
        raise typer.BadParameter(
            f"expected KIND/NAME=NUMBER with a number of 32 bits, got {text!r}", param_hint="--priority"
        )
    return target_of(name, "--priority", namespace), int(number)


def painter() -> Callable[[Sign], str]:
    """Return what paints a sign: in colour on a terminal, unless NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return str
    return lambda sign: typer.style(str(sign), fg=_COLORS.get(sign.value), bold=True)


def one_of(given: Sequence[tuple[str, object]]) -> None:
    """Refuse options that exclude each other. Raises typer.BadParameter."""
    used = [name for name, value in given if value not in (None, "", False)]
    if len(used) > 1:
        raise typer.BadParameter(f"expected only one of {', '.join(used)}")
