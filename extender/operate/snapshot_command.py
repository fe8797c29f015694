"""`waggle snapshot`: the cluster as a file, from which plans can be made anywhere.

Exit status: 0 written; 2 an error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.operate.output import remark
from extender.operate.plan_options import (
    ConfigOption,
    ContextOption,
    KubeconfigOption,
    SchedulerOption,
    ServerOption,
)
from extender.operate.refusal import refuse

if TYPE_CHECKING:
    from extender.plan.records import World

#: Keys that are shown.
_SHOWN = 20


def add_snapshot_command(app: typer.Typer) -> None:
    """Make it a command of `app`."""
    app.command("snapshot")(snapshot)


def snapshot(
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
    config: ConfigOption = None,
    scheduler_config: SchedulerOption = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Put numbers in place of names, to give the file to others.")
    ] = False,
    keep_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="With --anonymous: keep this key of labels, annotations and taints; repeatable."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: standard output.")
    ] = None,
) -> None:
    """Write what scheduling reads of a cluster into a file: nodes, pods, workloads, budgets, and the configurations.

    Secrets, environment variables, commands and images are not in it. It is for `waggle plan --snapshot`, on another
    machine, later, or by somebody else. docs/snapshots.md says what exactly is in it.

        waggle snapshot > s.json.gz
        waggle snapshot --anonymous --keep-key acme.example/gang -o s.json.gz
        waggle plan -f job.yaml --snapshot s.json.gz

    Exit status: 0 written; 2 an error.
    """
    from algorithm.registry import AlgorithmError
    from extender.operate.cluster_world import read_cluster
    from extender.operate.output_files import replace_file
    from extender.operate.plan_scene import SceneError, settings_text
    from extender.plan.reading.anonymous import anonymous as without_names
    from extender.plan.reading.documents import InputError
    from extender.plan.reading.snapshots import write_snapshot
    from extender.settings import ClusterSettings, SettingsError, read_text

    if out is None and sys.stdout.isatty():
        raise typer.BadParameter("a snapshot is no text: name a FILE, or redirect the output", param_hint="--output")
    if keep_key and not anonymous:
        raise typer.BadParameter("only --anonymous replaces keys", param_hint="--keep-key")
    try:
        settings = settings_text(config) if config else ""
        scheduler = read_text(scheduler_config, str(scheduler_config)) if scheduler_config else ""
        found = read_cluster(
            ClusterSettings(kubeconfig=kubeconfig, context=context, server=server),
            configuration=settings,
            scheduler=scheduler,
        )
        world, left = without_names(found.world, keep_keys=keep_key or ()) if anonymous else (found.world, ())
        data = write_snapshot(world)
        if out is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            replace_file(out, data, mode=0o600)
    except (InputError, SceneError, SettingsError, AlgorithmError, OSError) as error:
        raise refuse(error) from error
    for warning in found.warnings:
        remark(warning, title="warning", style="yellow")
    if left:
        text = f"check it before you give it away: of replaced keys these are still in it: {', '.join(left[:_SHOWN])}"
        remark(text, title="warning", style="yellow")
    remark(_summary(world, len(data), is_anonymous=anonymous))


def _summary(world: World, size: int, *, is_anonymous: bool) -> str:
    numbers = f"{len(world.nodes)} nodes, {len(world.pods)} pods, {len(world.objects)} other objects"
    return f"{numbers}, {max(1, size >> 10)} KiB{', without names' if is_anonymous else ''}"
