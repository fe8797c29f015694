"""`waggle kube-scheduler-config`, `lint`, `doctor`, `certs`, `ui` and `hived`, which `extender.cli` adds to its own.

Exit status: 0 all well, 1 `lint` found something, 2 what was given cannot be used.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from extender.operate import hived
from extender.operate.claim_commands import add_claim_commands
from extender.operate.lint_commands import ConfigOption, add_lint_commands, settings_of
from extender.operate.look_commands import add_look_commands
from extender.operate.output import remark, say
from extender.operate.refusal import refuse
from extender.operate.topology import NAMESPACE, Topology
from extender.operate.vpod_commands import add_vpod_commands


class Report(StrEnum):
    """How a command reports."""

    TEXT = "text"
    JSON = "json"


def add_commands(app: typer.Typer) -> None:
    """Make these commands of `app`."""
    app.command("kube-scheduler-config")(scheduler_config)
    add_lint_commands(app)
    app.command("doctor")(doctor)
    app.command("certs")(certs)
    app.command("ui")(ui)
    add_look_commands(app)
    add_claim_commands(app)
    add_vpod_commands(app)
    app.add_typer(hived.app, name="hived")


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
        str | None,
        typer.Option(
            metavar="FILE",
            help="How kube-scheduler reaches the API server; '' in a pod. Default with local: kubectl's own.",
        ),
    ] = None,
    node_cache_capable: Annotated[
        bool, typer.Option("--node-cache-capable/--no-node-cache-capable", help="Send names, or whole Node objects.")
    ] = True,
    ignorable: Annotated[
        bool, typer.Option("--ignorable", help="Schedule on while Waggle is down. Not with bind.")
    ] = False,
    http_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="For one call. Default: 10s, or Waggle's own if that is longer."),
    ] = None,
    leader_elect: Annotated[
        bool | None, typer.Option("--leader-elect/--no-leader-elect", help="For several replicas of kube-scheduler.")
    ] = None,
    qps: Annotated[
        int | None, typer.Option(min=1, help="kube-scheduler's requests per second to the API server.")
    ] = None,
    config: ConfigOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to standard output.")
    ] = None,
) -> None:
    """Write the KubeSchedulerConfiguration with which kube-scheduler calls Waggle, each line with its reason.

    With `--config`, everything that has to agree with Waggle's own configuration is taken from it: which pods are sent
    (`pods.resource`), the names of schedulers, port, TLS, and time-outs. Options given here have precedence.

    **static-pod**: the control plane's own kube-scheduler. **second-scheduler**: another one beside it, in the cluster.
    **local**: both on this machine, without TLS.
    """
    from extender.operate.scheduler_config import OptionError, SchedulerOptions, kube_scheduler_config

    settings = settings_of(config)
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
        _write(kube_scheduler_config(options, settings), output)
    except (OptionError, OSError) as error:
        raise refuse(error) from error


def doctor(
    config: ConfigOption = None,
    kube_scheduler_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="kube-scheduler's configuration, to be compared with Waggle's.")
    ] = None,
    readyz: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The URL of a running Waggle that serves /readyz: its health port, such as http://localhost:9097.",
        ),
    ] = "",
    output: Annotated[Report, typer.Option("--output", "-o", help="text, or json for machines.")] = Report.TEXT,
) -> None:
    """Check everything that an installation needs, and say what to do: one line a check, OK, WARN or FAIL.

    Waggle's configuration; the API server, the rights there (asked by SelfSubjectAccessReview, nothing is tried), its
    version and its nodes; the certificates of both sides and how long they hold; kube-scheduler's configuration. Run it
    where Waggle runs, with its credentials.

    Exit status: 0 nothing failed (there may be warnings), 1 something did.
    """
    from extender.operate import doctor as checks

    found = checks.examine(config, kube_scheduler_config, readyz)
    say(checks.as_json(found) if output is Report.JSON else checks.as_text(found))
    raise typer.Exit(1 if checks.failed(found) else 0)


def certs(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder; is made if need be.")
    ] = Path("waggle-certs"),
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A name or IP by which Waggle is called, beside those of its Service; again for several.",
        ),
    ] = None,
    service: Annotated[str, typer.Option(metavar="NAME", help="Waggle's Service.")] = "waggle",
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Where that is.")] = NAMESPACE,
    client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A client; again for several. Default: kube-scheduler, and waggle-viewer, which may only look.",
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificates hold.")] = 365,
    ca_days: Annotated[int, typer.Option(min=1, max=36500, help="How long the CA holds.")] = 3650,
    secrets: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write them as Kubernetes Secrets too; - for standard output.")
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="New certificates from the CA that is in DIR.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is in DIR, the CA too.")] = False,
) -> None:
    """Make the certificates of both sides: a CA, Waggle's, and one for everybody who may call it.

    For clusters without cert-manager. ca.key stays with you: anyone who has it can call Waggle.
    """
    from extender.operate import certs as maker

    names = client or ["kube-scheduler", "waggle-viewer"]
    try:
        if secrets is not None:
            maker.check_names_of_secrets(names if not renew else [*names, *maker.clients_in(output)], namespace)
        if renew:
            written = maker.renew(output, host or (), client or (), days=days)
        else:
            hosts = [*maker.service_hosts(service, namespace), *(host or ())]
            written = maker.create(output, hosts, names, days=days, ca_days=ca_days, force=force)
        if secrets is not None:
            # After --force, folders of other clients may be left over, with certificates of the authority before.
            shown = maker.clients_in(output) if renew else dict.fromkeys(names)
            _write_secrets(maker.secrets(output, shown, namespace, service), secrets)
    except (maker.CertsError, OSError) as error:
        raise refuse(error) from error
    for path in written:
        remark(str(path))
    remark(_next_steps(output, names[0], namespace, days, renewed=renew))


def _write_secrets(text: str, file: Path) -> None:
    from extender.operate.output_files import replace_file

    if str(file) == "-":
        say(text, nl=False)
    else:
        replace_file(file, text.encode(), mode=0o600)


def _next_steps(folder: Path, client: str, namespace: str, days: int, *, renewed: bool) -> str:
    if renewed:
        return (
            "\nBring them where the old ones are. Waggle takes its own into use by itself, within seconds and without\n"
            "dropping a call; kube-scheduler reads its own again within a minute or so (a static pod's files too)."
        )
    return f"""
What to do with them:
  1. Waggle: server.tls with cert_file {folder}/server/tls.crt, key_file .../tls.key, client_ca_file .../ca.crt,
     and verb_clients [{client}].
  2. kube-scheduler: tlsConfig with certFile {folder}/{client}/tls.crt, keyFile .../tls.key, caFile .../ca.crt,
     where it runs; `waggle kube-scheduler-config --help`.
  In a cluster both are Secrets: --secrets FILE, then kubectl apply -f FILE (namespace {namespace}).
  3. Keep {folder}/ca.key to yourself. Within {days} days, when they end: waggle certs -o {folder} --renew."""


def ui(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Waggle's namespace.")
    ] = NAMESPACE,
    service: Annotated[str, typer.Option(metavar="NAME", help="Waggle's Service; the chart's release.")] = "waggle",
    secret: Annotated[
        str, typer.Option(metavar="NAME", help="The Secret with the certificate to show. Default: SERVICE-viewer-tls.")
    ] = "",
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="Send a token of this account, if Waggle also asks for one.")
    ] = "",
    context: Annotated[
        str, typer.Option(metavar="NAME", help="The context of the kubeconfig. Default: kubectl's own.")
    ] = "",
    kubeconfig: Annotated[str, typer.Option(metavar="FILE", help="Default: kubectl's own.")] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1. 0: any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it, or only print the address.")] = True,
) -> None:
    """Open the web page of a Waggle that runs in a cluster, with all its other pages.

    Everything goes through kubectl: a user whom RBAC allows to read the Secret and to forward a port may look, and can
    change nothing (Role waggle-viewer; docs/web-page.md). The address works on this machine only, until Ctrl-C.
    Without a cluster: `waggle demo --stay`.
    """
    import webbrowser

    from extender.operate.reach import Connection, ReachError, Target
    from extender.operate.ui import LocalPages, serve_ui

    def opened(pages: LocalPages) -> None:
        say(pages.url)
        sys.stdout.flush()
        if browser and not webbrowser.open(pages.url_once):
            remark("no browser was found: open the address yourself")

    target = Target(namespace, service, secret, kubeconfig, context, service_account)
    try:
        with Connection(target) as connection:
            serve_ui(connection, port, opened)
    except ReachError as error:
        raise refuse(error) from error
    except OSError as error:
        raise refuse(OSError(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}")) from error
    except KeyboardInterrupt:
        remark("waggle ui: closed")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        say(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
