"""`waggle explain` and `waggle top`: Waggle's pages for people who are in a terminal.

Exit status: 0 shown, 1 there is no such pod, 2 Waggle cannot be reached, or does not show it to you.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from extender.operate.output import remark, say
from extender.operate.refusal import refuse
from extender.operate.waggle_options import Format, OutputOption, WaggleOptions, calls_waggle

if TYPE_CHECKING:
    from extender.operate.look import Pages


def add_look_commands(app: typer.Typer) -> None:
    """Make these commands of `app`."""
    app.command("explain")(explain)
    app.command("top")(top)


@calls_waggle
def explain(
    pod: Annotated[str, typer.Argument(metavar="POD", help="NAME, or NAMESPACE/NAME.")],
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="The pod's. Default: that of kubectl's context; with --server: default.",
        ),
    ] = "",
    output: OutputOption = Format.TEXT,
    *,
    waggle: WaggleOptions,
) -> None:
    """Explain why a pod waits, and what would help; where it is, if it has a place.

    Exit status: 0 shown, 1 there is no such pod, 2 Waggle cannot be reached, or does not show it to you.
    """
    from extender.operate.look_text import explanation

    given, _, name = pod.rpartition("/")
    with _pages(waggle) as pages:
        found = pages.explain(given or namespace or _namespace(waggle), name)
        say(_json(found) if output is Format.JSON else explanation(found))


@calls_waggle
def top(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Only pods of this one. Default: all.")
    ] = "",
    output: OutputOption = Format.TEXT,
    *,
    waggle: WaggleOptions,
) -> None:
    """Show how much of the cluster is in use, how many pods wait, and why.

    Exit status: 0 shown, 2 Waggle cannot be reached, or does not show it to you.
    """
    from algorithm.suggest import near
    from extender.operate.look_text import top as text

    with _pages(waggle) as pages:
        pods = pages.read("/v1/inspect/pods", namespace=namespace)["items"]
        nodes = pages.read("/v1/inspect/nodes")["items"]
        say(_json({"pods": pods, "nodes": nodes}) if output is Format.JSON else text(pods, nodes))
        if namespace and not pods:
            known = pages.read("/v1/inspect/table/pods", limit="1")["namespaces"]
            remark(f"No pod of namespace {namespace} is known{near(namespace, known)}")


def _namespace(waggle: WaggleOptions) -> str:
    """The namespace of a pod that is named without one."""
    from extender.operate.reach import context_namespace

    return "default" if waggle.server else context_namespace(waggle.target)


@contextmanager
def _pages(waggle: WaggleOptions) -> Iterator[Pages]:
    """The pages to look at. What goes wrong with them ends the command."""
    from extender.operate.look import NotFoundError, pages_of
    from extender.operate.reach import ReachError

    with waggle.reached():
        token = waggle.token_file.read_text(encoding="utf-8").strip() if waggle.token_file else ""
        try:
            with pages_of(waggle.direct(token), waggle.target) as pages:
                yield pages
        except NotFoundError as missing:
            remark(str(missing), title="waggle", style="red")
            raise typer.Exit(1) from missing
        except (KeyError, TypeError, AttributeError) as error:
            raise refuse(ReachError(f"this is no page of a Waggle of this version: {error!r}")) from error


def _json(found: object) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)
