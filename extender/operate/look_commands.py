"""`waggle explain` and `waggle top`: Waggle's pages for people who are in a terminal.

Exit status: 0 shown, 1 there is no such pod, 2 Waggle cannot be reached, or does not show it to you.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.operate.output import remark, say
from extender.operate.refusal import refuse
from extender.operate.topology import NAMESPACE

if TYPE_CHECKING:
    from extender.operate.look import Pages


class Format(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


ServerOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar="WAGGLE_SERVER",
        help="Waggle's address, such as http://127.0.0.1:9096. Without it: the Waggle in kubectl's cluster.",
    ),
]
CaOption = Annotated[Path | None, typer.Option(metavar="PEM", help="With --server: the CA of its certificate.")]
CertOption = Annotated[Path | None, typer.Option(metavar="PEM", help="With --server: your client certificate.")]
KeyOption = Annotated[Path | None, typer.Option(metavar="PEM", help="Its private key.")]
TokenOption = Annotated[Path | None, typer.Option(metavar="FILE", help="With --server: a bearer token, in a file.")]
WaggleOption = Annotated[str, typer.Option(metavar="NAME", help="Waggle's namespace in the cluster.")]
ServiceOption = Annotated[str, typer.Option(metavar="NAME", help="Its Service; the chart's release.")]
AccountOption = Annotated[
    str, typer.Option(metavar="NAME", help="Send a token of this account, if Waggle asks for one.")
]
ContextOption = Annotated[
    str, typer.Option(metavar="NAME", help="The context of the kubeconfig. Default: kubectl's own.")
]
KubeconfigOption = Annotated[str, typer.Option(metavar="FILE", help="Default: kubectl's own.")]
OutputOption = Annotated[Format, typer.Option("--output", "-o", help="text, or json as the page has it.")]


def add_look_commands(app: typer.Typer) -> None:
    """Make these commands of `app`."""
    app.command("explain")(explain)
    app.command("top")(top)


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
    server: ServerOption = "",
    ca_file: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    token_file: TokenOption = None,
    waggle_namespace: WaggleOption = NAMESPACE,
    service: ServiceOption = "waggle",
    service_account: AccountOption = "",
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = "",
) -> None:
    """Explain why a pod waits, and what would help; where it is, if it has a place.

    Exit status: 0 shown, 1 there is no such pod, 2 Waggle cannot be reached, or does not show it to you.
    """
    from extender.operate.look_text import explanation

    given, _, name = pod.rpartition("/")
    options = (server, ca_file, cert, key, token_file, waggle_namespace, service, service_account, context, kubeconfig)
    with _pages(*options) as pages:
        found = pages.explain(given or namespace or _namespace(server, context, kubeconfig), name)
        say(_json(found) if output is Format.JSON else explanation(found))


def top(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Only pods of this one. Default: all.")
    ] = "",
    output: OutputOption = Format.TEXT,
    server: ServerOption = "",
    ca_file: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    token_file: TokenOption = None,
    waggle_namespace: WaggleOption = NAMESPACE,
    service: ServiceOption = "waggle",
    service_account: AccountOption = "",
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = "",
) -> None:
    """Show how much of the cluster is in use, how many pods wait, and why.

    Exit status: 0 shown, 2 Waggle cannot be reached, or does not show it to you.
    """
    from algorithm.suggest import near
    from extender.operate.look_text import top as text

    options = (server, ca_file, cert, key, token_file, waggle_namespace, service, service_account, context, kubeconfig)
    with _pages(*options) as pages:
        pods = pages.read("/v1/inspect/pods", namespace=namespace)["items"]
        nodes = pages.read("/v1/inspect/nodes")["items"]
        say(_json({"pods": pods, "nodes": nodes}) if output is Format.JSON else text(pods, nodes))
        if namespace and not pods:
            known = pages.read("/v1/inspect/table/pods", limit="1")["namespaces"]
            remark(f"No pod of namespace {namespace} is known{near(namespace, known)}")


def _namespace(server: str, context: str, kubeconfig: str) -> str:
    """The namespace of a pod that is named without one."""
    from extender.operate.reach import Target, context_namespace

    return "default" if server else context_namespace(Target(kubeconfig=kubeconfig, context=context))


@contextmanager
def _pages(
    server: str,
    ca_file: Path | None,
    cert: Path | None,
    key: Path | None,
    token_file: Path | None,
    waggle_namespace: str,
    service: str,
    service_account: str,
    context: str,
    kubeconfig: str,
) -> Iterator[Pages]:
    """The pages to look at. What goes wrong with them ends the command."""
    from extender.operate.look import NotFoundError, Server, pages_of
    from extender.operate.reach import ReachError, Target

    target = Target(waggle_namespace, service, "", kubeconfig, context, service_account)
    try:
        token = token_file.read_text(encoding="utf-8").strip() if token_file else ""
        direct = Server(server, ca_file, cert, key, token) if server else None
        with pages_of(direct, target) as pages:
            yield pages
    except NotFoundError as missing:
        remark(str(missing), title="waggle", style="red")
        raise typer.Exit(1) from missing
    except (KeyError, TypeError, AttributeError) as error:
        raise refuse(ReachError(f"this is no page of a Waggle of this version: {error!r}")) from error
    except (ReachError, OSError, UnicodeDecodeError) as error:
        hint = "" if server else ". For a Waggle on this machine: --server http://127.0.0.1:9096"
        raise refuse(ReachError(f"{error}{hint}")) from error


def _json(found: object) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)
