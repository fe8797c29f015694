"""`waggle lint` of a KubeSchedulerConfiguration, `waggle lint pool`, `waggle lint vpods` and `waggle lint ordering`.

Exit status: 0 nothing worse than a remark, 1 something to fix, 2 what was given cannot be used.
"""

from __future__ import annotations

import sys
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.operate.help import App, first_is
from extender.operate.output import say
from extender.operate.refusal import refuse

if TYPE_CHECKING:
    from extender.operate.pool_scene import Scene
    from extender.operate.set_scene import SetScene
    from extender.settings import Settings

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="Waggle's own configuration (waggle.yaml).")
]


def add_lint_commands(app: typer.Typer) -> None:
    """Make these commands of `app`."""
    linter = App(
        cls=first_is("file"),
        help="Find the traps in kube-scheduler's configuration, in pools, sets of vpods and start-up ordering.",
    )
    linter.command("file")(lint)
    linter.command("pool")(lint_pool)
    linter.command("vpods")(lint_vpods)
    linter.command("ordering")(lint_ordering)
    app.add_typer(linter, name="lint")


def lint(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A KubeSchedulerConfiguration; - for standard input.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Leave out a rule, such as WL203; again for several.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List all rules, as Markdown.")] = False,
    config: ConfigOption = None,
) -> None:
    """Find the traps in a KubeSchedulerConfiguration: what will happen, and what to do about it.

    With `--config`, it is held against Waggle's own configuration: the same pods, port, TLS and time-outs?

    FILE may also be a ConfigMap that holds one. Exit status: 0 nothing worse than a remark, 1 something to fix, 2 FILE
    cannot be read.

    `waggle lint pool` checks pools of warm pods, `waggle lint vpods` sets of vpods, `waggle lint ordering` manifests
    whose pods wait for others.
    """
    from extender.operate import lint as linter
    from extender.operate.document import DocumentError, read
    from extender.operate.rules import REGISTRY

    if rules:
        say(linter.as_markdown(), nl=False)
        return
    if file is None:
        raise typer.BadParameter("name the file to look at", param_hint="FILE")
    settings = settings_of(config)
    try:
        findings = linter.lint(read(_text(file)), settings, ignore=_codes(ignore or [], REGISTRY))
    except (DocumentError, OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise refuse(ValueError(f"{file}: {why}")) from error
    show = linter.as_json if as_json else linter.as_text
    say(show(str(file), findings, with_config=settings is not None))
    raise typer.Exit(1 if linter.to_mend(findings) else 0)


def lint_pool(
    config: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Waggle's own configuration (waggle.yaml), with its pools.")
    ] = None,
    objects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Workloads, budgets, policies, Pools, as YAML or JSON; - for standard input."
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Read the objects from the API server, and check Waggle's rights.")
    ] = False,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="With --cluster: also check the Pools here; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Leave out a rule, WL733 say; again for several.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List all rules, as Markdown.")] = False,
) -> None:
    """Find misconfigured pools: what will happen, and what to do about it. It changes nothing.

    Checks the pools of FILE, and the Pools among the objects of `--objects` or `--cluster`; without these options only
    FILE. Run `--cluster` with Waggle's own credentials, because it also checks their rights.

    Exit status: 0 no errors or warnings; 1 errors or warnings; 2 a file, or the API server, cannot be read.
    """
    from extender.kube.client.api import ApiError
    from extender.operate import lint_pools
    from extender.operate.pool_rules import POOLS
    from extender.operate.scene import SceneError
    from extender.operate.scene_rules import to_mend

    if rules:
        say(POOLS.as_markdown(), nl=False)
        return
    if config is None and objects is None and not cluster:
        raise typer.BadParameter("name Waggle's configuration, or use --objects or --cluster", param_hint="FILE")
    settings = settings_of(config)
    try:
        scene = _pool_scene(settings, objects, namespace or []) if not cluster else _from_cluster(settings, namespace)
    except (SceneError, ApiError, OSError, ValueError) as error:
        raise refuse(error) from error
    findings = lint_pools.lint(scene, ignore=_codes(ignore or [], POOLS.rules))
    say(lint_pools.as_json(scene, findings) if as_json else lint_pools.as_text(scene, findings))
    raise typer.Exit(1 if to_mend(findings) else 0)


def lint_vpods(
    config: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Waggle's own configuration (waggle.yaml), with its sets.")
    ] = None,
    objects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="StatefulSets, VPodSets, VPods and more, as YAML or JSON; - for standard input."
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Read the objects from the API server, and check Waggle's rights.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Leave out a rule, WL826 say; again for several.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List all rules, as Markdown.")] = False,
) -> None:
    """Find misconfigured sets of vpods: what will happen, and what to do about it. It changes nothing.

    Checks the sets of FILE, and the VPodSets and VPods among the objects of `--objects` or `--cluster`; without these
    options only FILE. Run `--cluster` with Waggle's own credentials, because it also checks their rights.

    Exit status: 0 no errors or warnings; 1 errors or warnings; 2 a file, or the API server, cannot be read.
    """
    from extender.kube.client.api import ApiError
    from extender.operate import lint_sets
    from extender.operate.scene import SceneError
    from extender.operate.scene_rules import to_mend
    from extender.operate.set_rules import SETS

    if rules:
        say(SETS.as_markdown(), nl=False)
        return
    if config is None and objects is None and not cluster:
        raise typer.BadParameter("name Waggle's configuration, or use --objects or --cluster", param_hint="FILE")
    settings = settings_of(config)
    try:
        scene = _set_scene(settings, objects) if not cluster else _sets_of_cluster(settings)
    except (SceneError, ApiError, OSError, ValueError) as error:
        raise refuse(error) from error
    findings = lint_sets.lint(scene, ignore=_codes(ignore or [], SETS.rules))
    say(lint_sets.as_json(scene, findings) if as_json else lint_sets.as_text(scene, findings))
    raise typer.Exit(1 if to_mend(findings) else 0)


def lint_ordering(
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Manifests: a file, a folder, a kustomization, or - for standard input; repeatable.",
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="The namespace of objects that name none.")
    ] = "default",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Leave out a rule, WL904 say; again for several.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List all rules, as Markdown.")] = False,
) -> None:
    """Find dependencies that would hold pods back for ever: cycles, misspelt fields, missing gates.

    Reads manifests with waggle.dev/after and dependsOn, and says what would wait for what. It changes nothing.

    Exit status: 0 no errors or warnings; 1 errors or warnings; 2 a file, or a part of one, cannot be read.
    """
    from extender.operate import lint_ordering as linter
    from extender.operate.ordering_rules import ORDERING
    from extender.operate.ordering_scene import from_sources
    from extender.operate.plan_sources import sources
    from extender.operate.scene_rules import to_mend

    if rules:
        say(ORDERING.as_markdown(), nl=False)
        return
    if not files:
        raise typer.BadParameter("name the manifests to look at", param_hint="-f")
    try:
        scene = from_sources(sources(files), namespace)
    except (OSError, ValueError) as error:
        raise refuse(error) from error
    findings = linter.lint(scene, ignore=_codes(ignore or [], ORDERING.rules))
    say(linter.as_json(scene, findings) if as_json else linter.as_text(scene, findings))
    raise typer.Exit(2 if scene.is_broken else 1 if to_mend(findings) else 0)


def _set_scene(settings: Settings | None, objects: Path | None) -> SetScene:
    from extender.operate.set_scene import SetScene, configured, from_text

    if objects is None:
        return SetScene(configured(settings), settings)
    return from_text(_some_text(objects), settings)


def _sets_of_cluster(settings: Settings | None) -> SetScene:
    from extender.kube.client.kubeconfig import connect
    from extender.operate import lint_sets
    from extender.operate.set_scene import from_cluster
    from extender.settings import ClusterSettings

    api = connect(settings.cluster if settings else ClusterSettings())
    try:
        scene = from_cluster(api, settings)
        scene.missing_rights = lint_sets.missing_rights(api, scene)
    finally:
        api.close()
    return scene


def _pool_scene(settings: Settings | None, objects: Path | None, namespaces: list[str]) -> Scene:
    from extender.operate.pool_scene import Scene, configured, from_text

    if namespaces:
        raise ValueError("--namespace: only with --cluster; the objects of a file say where they are")
    if objects is None:
        return Scene(configured(settings.claims) if settings else [], settings)
    return from_text(_some_text(objects), settings)


def _from_cluster(settings: Settings | None, namespaces: list[str] | None) -> Scene:
    from extender.kube.client.kubeconfig import connect
    from extender.operate import lint_pools
    from extender.operate.pool_scene import from_cluster
    from extender.settings import ClusterSettings

    api = connect(settings.cluster if settings else ClusterSettings())
    try:
        scene = from_cluster(api, settings, namespaces or [])
        scene.missing_rights = dict(lint_pools.missing_rights(api, scene.pools))
    finally:
        api.close()
    return scene


def settings_of(config: Path | None) -> Settings | None:
    """Read the configuration, if one is named. Raises typer.Exit with an error that says what is wrong."""
    from extender.settings import SettingsError, load

    try:
        return load(config) if config else None
    except SettingsError as error:
        raise refuse(error) from error


def _some_text(objects: Path) -> str:
    text = _text(objects)
    if not text.strip():
        # The command that should have written it failed. To lint against nothing would accuse every pool and set.
        raise ValueError("--objects: the file is empty; `kubectl get ... -o yaml` writes a List, even without items")
    return text


def _text(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")


def _codes(given: list[str], known: Container[str]) -> list[str]:
    for code in given:
        if code not in known:
            raise typer.BadParameter(f"{code} is no rule; `waggle lint --rules` lists them", param_hint="--ignore")
    return given
