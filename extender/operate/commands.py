"""`waggle kube-scheduler-config`, `waggle lint` and `waggle certs`, as `extender.cli` adds them to its own commands.

Exit status: 0 all well, 1 `lint` found something, 2 what was given cannot be used.
"""

from __future__ import annotations

import sys
from collections.abc import Container
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from extender.operate.scheduler_config import OptionError, SchedulerOptions, Topology, kube_scheduler_config

_errors = Console(stderr=True, highlight=False)


def add_commands(app: typer.Typer) -> None:
    """Make these commands of `app`."""
    app.command("kube-scheduler-config")(scheduler_config)
    app.command("lint")(lint)


def scheduler_config(
    topology: Annotated[Topology, typer.Option(help="Where kube-scheduler runs.")],
    scheduler_name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Of the pods it schedules; again for several profiles.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where Waggle is, as kube-scheduler reaches it. static-pod: needed."),
    ] = None,
    managed_resource: Annotated[
        list[str] | None,
        typer.Option(metavar="RESOURCE", help="Send only pods that ask for it; again for several. Without: all pods."),
    ] = None,
    all_pods: Annotated[
        bool, typer.Option("--all-pods", help="static-pod: really send every pod of the cluster.")
    ] = False,
    verb: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VERB", help="filter, prioritize, preempt or bind; again for several. Default: all but prioritize."
        ),
    ] = None,
    weight: Annotated[int, typer.Option(min=1, help="Factor of Waggle's scores, with --verb prioritize.")] = 1,
    ca_file: Annotated[
        str | None,
        typer.Option(metavar="PEM", help="The CA of Waggle's certificate. Paths as kube-scheduler sees them."),
    ] = None,
    cert: Annotated[str | None, typer.Option(metavar="PEM", help="The client certificate of kube-scheduler.")] = None,
    key: Annotated[str | None, typer.Option(metavar="PEM", help="Its private key.")] = None,
    server_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name in Waggle's certificate, if not the URL's host.")
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="How kube-scheduler reaches the API server; '' in a pod.")
    ] = None,
    node_cache_capable: Annotated[
        bool, typer.Option("--node-cache-capable/--no-node-cache-capable", help="Send names, or whole Node objects.")
    ] = True,
    ignorable: Annotated[
        bool, typer.Option("--ignorable", help="Schedule on while Waggle is down. Not with bind.")
    ] = False,
    http_timeout: Annotated[str, typer.Option(metavar="DURATION", help="For one call.")] = "10s",
    leader_elect: Annotated[
        bool | None, typer.Option("--leader-elect/--no-leader-elect", help="For several replicas of kube-scheduler.")
    ] = None,
    qps: Annotated[
        int | None, typer.Option(min=1, help="kube-scheduler's requests per second to the API server.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to standard output.")
    ] = None,
) -> None:
    """Write the KubeSchedulerConfiguration with which kube-scheduler calls Waggle, each line with its reason.

    **static-pod**: the control plane's own kube-scheduler. **second-scheduler**: another one beside it, in the cluster.
    **local**: both on this machine, without TLS.
    """
    options = SchedulerOptions(
        topology=topology,
        scheduler_names=tuple(scheduler_name or ()),
        url=url,
        verbs=tuple(verb) if verb else SchedulerOptions.verbs,
        weight=weight,
        ca_file=ca_file,
        cert_file=cert,
        key_file=key,
        server_name=server_name,
        kubeconfig=kubeconfig,
        node_cache_capable=node_cache_capable,
        ignorable=ignorable,
        managed_resources=tuple(managed_resource or ()),
        all_pods=all_pods,
        http_timeout=http_timeout,
        leader_elect=leader_elect,
        qps=qps,
    )
    try:
        _write(kube_scheduler_config(options), output)
    except (OptionError, OSError) as error:
        raise _refuse(error) from error


def lint(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A KubeSchedulerConfiguration; - for standard input.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Leave out a rule, WL203 say; again for several.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List all rules, as Markdown.")] = False,
) -> None:
    """Find the traps in a KubeSchedulerConfiguration: what will happen, and what to do about it.

    FILE may also be a ConfigMap that holds one. Exit status: 0 nothing worse than a remark, 1 something to mend, 2 FILE
    cannot be read.
    """
    from extender.operate import lint as linter
    from extender.operate.document import DocumentError, read
    from extender.operate.rules import REGISTRY

    if rules:
        typer.echo(linter.as_markdown(), nl=False)
        return
    if file is None:
        raise typer.BadParameter("name the file to look at", param_hint="FILE")
    try:
        findings = linter.lint(read(_text(file)), ignore=_codes(ignore or [], REGISTRY))
    except (DocumentError, OSError, UnicodeDecodeError) as error:
        raise _refuse(ValueError(f"{file}: {error}")) from error
    typer.echo(linter.as_json(str(file), findings) if as_json else linter.as_text(str(file), findings))
    raise typer.Exit(1 if linter.to_mend(findings) else 0)


def _text(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")


def _codes(given: list[str], known: Container[str]) -> list[str]:
    for code in given:
        if code not in known:
            raise typer.BadParameter(f"{code} is no rule; `waggle lint --rules` lists them", param_hint="--ignore")
    return given


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _refuse(error: Exception) -> typer.Exit:
    _errors.print(f"[red]waggle:[/red] {escape(str(error))}", soft_wrap=True)
    return typer.Exit(2)
