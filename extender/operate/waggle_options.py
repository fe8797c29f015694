"""The options by which a command says which Waggle it calls, written once for all commands that call one.

    @calls_waggle
    def top(namespace: ..., waggle: WaggleOptions) -> None:

The command has its own options and those of `WaggleOptions`, which it gets as one argument.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from extender.operate.refusal import refuse
from extender.operate.topology import NAMESPACE

if TYPE_CHECKING:
    from extender.operate.look import Server
    from extender.operate.reach import Target


class Format(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="text, or json as the page has it.")]


@dataclass(frozen=True)
class WaggleOptions:
    """Which Waggle: one at an address, or the one in kubectl's cluster."""

    server: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="WAGGLE_SERVER",
            help="Waggle's address, such as http://127.0.0.1:9096. Without it: the Waggle in kubectl's cluster.",
        ),
    ] = ""
    ca_file: Annotated[Path | None, typer.Option(metavar="PEM", help="With --server: the CA of its certificate.")] = (
        None
    )
    cert: Annotated[Path | None, typer.Option(metavar="PEM", help="With --server: your client certificate.")] = None
    key: Annotated[Path | None, typer.Option(metavar="PEM", help="Its private key.")] = None
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --server: a bearer token, in a file.")
    ] = None
    waggle_namespace: Annotated[str, typer.Option(metavar="NAME", help="Waggle's namespace in the cluster.")] = (
        NAMESPACE
    )
    service: Annotated[str, typer.Option(metavar="NAME", help="Its Service; the chart's release.")] = "waggle"
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="Send a token of this account, if Waggle asks for one.")
    ] = ""
    context: Annotated[
        str, typer.Option(metavar="NAME", help="The context of the kubeconfig. Default: kubectl's own.")
    ] = ""
    kubeconfig: Annotated[str, typer.Option(metavar="FILE", help="Default: kubectl's own.")] = ""

    @property
    def target(self) -> Target:
        """The Waggle in the cluster, if there is no `server`."""
        from extender.operate.reach import Target

        return Target(self.waggle_namespace, self.service, "", self.kubeconfig, self.context, self.service_account)

    def direct(self, token: str = "") -> Server | None:
        """The Waggle at an address; None: the one in the cluster."""
        from extender.operate.look import Server

        return Server(self.server, self.ca_file, self.cert, self.key, token) if self.server else None

    @contextmanager
    def reached(self) -> Iterator[None]:
        """End the command if Waggle cannot be reached."""
        from extender.operate.reach import ReachError

        try:
            yield
        except (ReachError, OSError, UnicodeDecodeError) as error:
            hint = "" if self.server else ". For a Waggle on this machine: --server http://127.0.0.1:9096"
            raise refuse(ReachError(f"{error}{hint}")) from error


def calls_waggle(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of WaggleOptions in place of its argument `waggle`."""
    hints = get_type_hints(command, include_extras=True)
    of_waggle = get_type_hints(WaggleOptions, include_extras=True)
    parameters = [
        each.replace(annotation=hints[name])
        for name, each in inspect.signature(command).parameters.items()
        if name != "waggle"
    ]
    parameters += [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=of_waggle[field.name]
        )
        for field in fields(WaggleOptions)
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        waggle = WaggleOptions(**{field.name: given.pop(field.name) for field in fields(WaggleOptions)})
        command(**given, waggle=waggle)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options
