"""`waggle hived diff` and `waggle hived init`, as `extender.cli` adds them to its own commands.

Exit status: 0 all well and nothing differs, 1 `diff` found that something changes, 2 what was given cannot be used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.operate.help import App
from extender.operate.output import remark, say
from extender.operate.refusal import refuse

if TYPE_CHECKING:
    from extender.operate.inventory import Inventory
    from extender.settings import ClusterSettings

app = App(help="For the algorithm **hived**: describe a cluster, and see what another configuration would change.")

KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="How to reach the API server; the usual one.")
]
ContextOption = Annotated[str | None, typer.Option("--context", metavar="NAME", help="The context in it.")]
ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="The API server, http(s)://host:port, in place of it.")
]
FromFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="In place of a cluster: what `kubectl get nodes,pods -A -o json` wrote."),
]


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Waggle's configuration, or HiveD's own file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Likewise; what is to be used from now on.")],
    cluster: Annotated[bool, typer.Option("--cluster", help="Say what it means for the pods that run now.")] = False,
    from_file: FromFileOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
) -> None:
    """Say what another configuration would change, without changing anything.

    Hardware, virtual clusters, pinned cells and settings are compared, and whether the promises fit. With `--cluster`
    or `--from-file`, the pods that run are recovered with either configuration by the very algorithm that would do it,
    and compared: who keeps the guarantee, who loses it and goes on, and which devices are no longer accounted for.

    Exit status: 0 nothing changes, 1 something does, 2 a configuration cannot be used.
    """
    from algorithm.hived.cells.config import HivedConfigError
    from extender.kube.client.kubeconfig import ConnectionSettingsError
    from extender.operate import hived_diff
    from extender.operate.inventory import InventoryError
    from extender.settings import ClusterSettings, SettingsError

    wanted = cluster or kubeconfig is not None or context is not None or server is not None
    try:
        before, after = hived_diff.read(old), hived_diff.read(new)
        found = None
        if from_file is not None or wanted:
            found = _inventory(from_file, ClusterSettings(kubeconfig=kubeconfig, context=context, server=server))
        report = hived_diff.report(before, after, found)
    except (HivedConfigError, SettingsError, ConnectionSettingsError, InventoryError) as error:
        raise refuse(error) from error
    say(hived_diff.as_json(report) if as_json else hived_diff.as_text(report))
    raise typer.Exit(2 if report.refused else int(report.changes_something))


@app.command()
def init(
    from_file: FromFileOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--level",
            metavar="LABEL",
            help="Nodes with the same value of this label are one cell; again, from the outermost on: zone, then rack.",
        ),
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What devices are called in `allocatable`. Default: nvidia.com/gpu."),
    ] = None,
    type_label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="The label that names the kind of device; of several the first that a node has. "
            "Default: nvidia.com/gpu.product, then node.kubernetes.io/instance-type.",
        ),
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A virtual cluster; of several each gets the same share. Default: one that has all."
        ),
    ] = None,
    settings_only: Annotated[
        bool, typer.Option("--settings-only", help="Only what HiveD's own file holds, for algorithm.settings_file.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to standard output.")
    ] = None,
) -> None:
    """Write a configuration from the nodes of a cluster, so that nobody has to write hundreds of addresses.

    Machines with the same number of the same devices become cells of one type; the labels given with `--level` are the
    levels above them. Nodes without devices are left out, and named. The same nodes always give the same file.
    """
    from algorithm.hived.insight.config_generator import DraftError, Wishes, draft
    from extender.kube.client.kubeconfig import ConnectionSettingsError
    from extender.operate.inventory import InventoryError
    from extender.settings import ClusterSettings

    wishes = Wishes(
        levels=tuple(level or ()),
        resources=tuple(resource or Wishes.resources),
        type_labels=tuple(type_label or Wishes.type_labels),
        tenants=tuple(tenant or Wishes.tenants),
    )
    try:
        found = _inventory(
            from_file, ClusterSettings(kubeconfig=kubeconfig, context=context, server=server), pods=False
        )
        made = draft(found.nodes, wishes, whole=not settings_only)
        if output is None:
            say(made.text, nl=False)
        else:
            output.write_text(made.text, encoding="utf-8")
    except (DraftError, ConnectionSettingsError, InventoryError, OSError) as error:
        raise refuse(error) from error
    for sentence in made.remarks:
        remark(sentence)
    if not settings_only:
        remark(
            "Next: waggle kube-scheduler-config --topology TOPOLOGY --config FILE. No node has the resource that marks "
            "HiveD's pods: kube-scheduler must be told not to count it, or they wait for ever"
        )


def _inventory(file: Path | None, cluster: ClusterSettings, *, pods: bool = True) -> Inventory:
    from extender.operate.inventory import from_cluster, from_file

    found = from_file(file) if file is not None else from_cluster(cluster, pods=pods)
    if found.unreadable:
        remark(f"{found.unreadable} nodes or pods cannot be read, and are left out")
    return found
