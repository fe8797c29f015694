"""`waggle plan`, `waggle plan diff` and `waggle apply`: what would happen, before it happens.

Exit status: 0 nothing waits or is evicted; 2 something does (of `diff`: the plans differ; of `apply`: the plan does not
hold any more, and nothing was created); 1 an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.operate.help import App, first_is
from extender.operate.output import remark, say
from extender.operate.plan_options import (
    WAITS,
    ConfigOption,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    PlanFormat,
    SchedulerOption,
    ServerOption,
    StrictCommand,
    fail,
    one_of,
    painter,
    priority_of,
    target_of,
)

if TYPE_CHECKING:
    from extender.operate.plan_apply import Creator
    from extender.operate.plan_scene import Cluster
    from extender.plan.files import PlanFile
    from extender.plan.records import Plan, RawObject
    from extender.plan.showing.difference import Difference

VerboseOption = Annotated[
    bool, typer.Option("--all", "--verbose", "-v", help="A line for each object; nothing is left out.")
]


def add_plan_commands(app: typer.Typer) -> None:
    """Make these commands of `app`."""
    plans = App(cls=first_is("make"), help="Show what would happen, in which order, and why, before it happens.")
    plans.command("make", cls=StrictCommand)(plan)
    plans.command("diff", cls=StrictCommand)(diff)
    app.add_typer(plans, name="plan")
    app.command("apply", cls=StrictCommand)(apply)


def plan(
    more_files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="The same as -f.")] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Manifests: a file, a folder, a kustomize folder, or - for standard input; repeatable.",
        ),
    ] = None,
    namespace: NamespaceOption = "",
    snapshot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The cluster as `waggle snapshot` wrote it.")
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="An empty cluster with this number of nodes.")
    ] = None,
    node_shape: Annotated[
        str,
        typer.Option(
            metavar="SHAPE", help="cpu=64,memory=256Gi,nvidia.com/gpu=8,label:rack=r%d: of --nodes and --add-nodes."
        ),
    ] = "",
    config: ConfigOption = None,
    scheduler_config: SchedulerOption = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What if Waggle ran with this configuration?")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(metavar="NAME", help="What if this algorithm decided? (`waggle algorithms`)")
    ] = None,
    add_nodes: Annotated[
        str, typer.Option(metavar="NUMBER|FILE", help="What if there were more nodes: of --node-shape, or of a file?")
    ] = "",
    cordon: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="What if this node were cordoned? Repeatable.")
    ] = None,
    drain: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="What if this node were drained? Repeatable.")
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND/NAME", help="What if it were deleted: node/n1, job/train, gang/a? Repeatable."),
    ] = None,
    priority: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND/NAME=N", help="What if its pods had this priority? Repeatable."),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Estimate when waiting pods start, from their declared run times.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides ties between nodes that are equally good.")] = 0,
    output: Annotated[PlanFormat, typer.Option("--output", "-o", help="How it is printed.")] = PlanFormat.TABLE,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the plan to FILE, for `waggle apply` and `diff`.")
    ] = None,
    verbose: VerboseOption = False,
) -> None:
    """Show what would happen if these manifests were applied: what runs where, what waits and why, what is evicted.

    Runs the scheduler that runs live on a copy of the cluster, to the end. Nothing is changed. The cluster is kubectl's
    own, unless --snapshot or --nodes names another.

        waggle plan -f job.yaml
        waggle plan -f job.yaml --nodes 100 --node-shape cpu=64,nvidia.com/gpu=8
        waggle plan --drain node-7
        waggle plan diff A.json B.json     compares two plans (--out)

    With a what-if option, it also shows the difference to the plan without it. docs/plan.md explains the output.

    Exit status: 0 nothing waits or is evicted; 2 something does; 1 an error.
    """
    from extender.operate.output_files import replace_file
    from extender.operate.plan_scene import Cluster, added_nodes, read_manifests, read_world, settings_text
    from extender.plan.files import encode
    from extender.plan.planned import compared, planned, with_configurations, with_warnings
    from extender.plan.records import Changes, Options

    one_of((("--snapshot", snapshot), ("--nodes", nodes), ("--kubeconfig", kubeconfig)))
    one_of((("--snapshot", snapshot), ("--nodes", nodes), ("--context", context)))
    one_of((("--snapshot", snapshot), ("--nodes", nodes), ("--server", server)))
    cluster = Cluster(snapshot, kubeconfig, context, server, nodes, node_shape, config, scheduler_config)
    namespace = namespace or cluster.namespace
    deleted = tuple(target_of(each, "--delete", namespace) for each in delete or ())
    priorities = tuple(priority_of(each, namespace) for each in priority or ())
    with _errors():
        manifests = read_manifests([*(files or ()), *(more_files or ())], namespace)
        read = read_world(cluster, algorithm=algorithm)
        world = read.world
        changes = Changes(
            settings=settings_text(settings) if settings else None,
            algorithm=algorithm,
            delete=deleted,
            add_nodes=added_nodes(add_nodes, node_shape, world),
            cordon=tuple(cordon or ()),
            drain=tuple(drain or ()),
            priorities=priorities,
            create=manifests.objects,
        )
        made = planned(world, changes, Options(seed=seed, estimate=estimate), namespace=namespace)
        made = with_warnings(made, (*read.warnings, *manifests.warnings))
        found = compared(world, made)
        if out is not None:
            made = with_configurations(made, settings=config is not None, scheduler=scheduler_config is not None)
            replace_file(out, encode(made), mode=0o600)
        _show(made.plan, found, output, verbose)
        raise typer.Exit(0 if made.plan.is_clean else WAITS)


@contextmanager
def _errors() -> Iterator[None]:
    """Exit with status 1 and a message for errors that the user can correct."""
    from algorithm.registry import AlgorithmError
    from extender.kube.client.api import ApiError
    from extender.kube.client.kubeconfig import ConnectionSettingsError
    from extender.operate.plan_apply import ApplyError
    from extender.operate.plan_scene import SceneError
    from extender.plan.errors import PlanError
    from extender.plan.files import PlanFileError
    from extender.plan.reading.documents import InputError
    from extender.plan.reading.shapes import ShapeError
    from extender.settings import SettingsError

    of_input = (InputError, SceneError, ShapeError, PlanError, PlanFileError, SettingsError, AlgorithmError, OSError)
    try:
        yield
    except (*of_input, ApiError, ApplyError, ConnectionSettingsError) as error:
        raise fail(error) from error
    except KeyboardInterrupt:
        remark("stopped, nothing was changed")
        raise typer.Exit(130) from None


def _show(found: Plan, compared: Difference | None, output: PlanFormat, verbose: bool) -> None:
    """Print a plan, and the difference to the one without the what-if changes."""
    from extender.logs.printable import printable
    from extender.plan.showing import difference, encoding
    from extender.plan.showing.dot import dot
    from extender.plan.showing.markdown import markdown
    from extender.plan.showing.svg import svg
    from extender.plan.showing.table import table

    if output is PlanFormat.TABLE:
        typer.echo(table(found, every=verbose, paint=painter(), clean=partial(printable, keep="\n")))
        if compared is not None:
            say(f"\n{difference.of_change(compared, every=verbose)}")
    elif output is PlanFormat.MARKDOWN:
        say(markdown(found, compared), nl=False)
    elif output in (PlanFormat.JSON, PlanFormat.YAML):
        encode = encoding.to_json if output is PlanFormat.JSON else encoding.to_yaml
        typer.echo(encode(found, compared), nl=False)
    else:
        typer.echo((svg if output is PlanFormat.SVG else dot)(found), nl=False)


def diff(
    before: Annotated[Path, typer.Argument(metavar="A.json", help="A plan: of --out, or of -o json.")],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="Another one.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
    verbose: VerboseOption = False,
) -> None:
    """Compare two plans: the objects that run only in A or only in B, and what changed in the cluster in between.

    Exit status: 0 the same happens in both; 2 not the same; 1 an error.
    """
    from extender.plan.fingerprint import changes
    from extender.plan.showing.difference import as_text, difference, state_text
    from extender.plan.showing.encoding import as_json as encoded

    with _errors():
        old, new = _plan_file(before), _plan_file(after)
        found = difference(old.plan, new.plan)
        if as_json:
            typer.echo(encoded(found), nl=False)
        else:
            say(as_text(found, every=verbose))
            if old.parts and new.parts:
                say(state_text(list(changes(old.parts, new.parts)), every=verbose))
        raise typer.Exit(WAITS if found.changed else 0)


def _plan_file(path: Path, *, with_objects: bool = False) -> PlanFile:
    from extender.operate.plan_scene import read_bytes
    from extender.plan.files import MOST_BYTES, PlanFileError, decode, decode_any

    try:
        return (decode if with_objects else decode_any)(read_bytes(path, MOST_BYTES))
    except PlanFileError as error:
        raise PlanFileError(f"{path}: {error}") from error


def apply(
    file: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan of `waggle plan --out`.")],
    if_fingerprint: Annotated[
        bool,
        typer.Option(
            "--if-fingerprint/--any-state",
            help="Create only if the plan still holds where it matters, or whatever the cluster is like now.",
        ),
    ] = True,
    same_nodes: Annotated[
        bool, typer.Option("--same-nodes", help="The nodes of new pods matter, too, although ties are random.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be created; create nothing.")] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
    config: ConfigOption = None,
    scheduler_config: SchedulerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Create what a plan planned, in its order, if the plan still holds where it matters.

    If the cluster is not as it was, the plan is made again. It still holds if all new objects have the same outcome and
    reason, and nothing is evicted or moved that the plan did not name. Otherwise nothing is created, and what changed
    is said. Repeating is harmless: what exists is left as it is.

    Exit status: 0 everything exists; 2 the plan does not hold any more, nothing was created; 1 an error.
    """
    from extender.kube.client.kubeconfig import connect
    from extender.operate.plan_apply import Creator
    from extender.operate.plan_scene import Cluster
    from extender.plan.applying import in_order, refusal
    from extender.plan.files import PlanFileError
    from extender.settings import ClusterSettings

    with _errors():
        planned = _plan_file(file, with_objects=True)
        if why := refusal(planned):
            raise PlanFileError(f"{file}: {why}")
        api = connect(ClusterSettings(kubeconfig=kubeconfig, context=context, server=server), agent="waggle-plan")
        with closing(api):
            creator = Creator(api, planned.namespace)
            objects = creator.missing(in_order(planned.changes.create))
            cluster = Cluster(None, kubeconfig, context, server, None, "", config, scheduler_config)
            if objects and if_fingerprint:
                holds = _still_holds(planned, objects, cluster, same_nodes=same_nodes, verbose=verbose)
                if not holds:
                    raise typer.Exit(WAITS)
            creator.try_out(objects)
            _create(creator, planned, objects, dry_run)


def _still_holds(
    file: PlanFile, objects: Sequence[RawObject], cluster: Cluster, *, same_nodes: bool, verbose: bool
) -> bool:
    """Whether the plan holds for the cluster as it is now; if not, what changed is said."""
    from extender.operate.plan_scene import read_world_again
    from extender.plan.applying import differences
    from extender.plan.fingerprint import changes
    from extender.plan.planned import planned
    from extender.plan.records import Changes
    from extender.plan.showing.difference import listed, state_text

    world = read_world_again(cluster, file)
    # What exists already is planned again, too: its controller may not have made all of its pods yet.
    now = planned(world, Changes(create=file.changes.create), file.options, namespace=file.namespace)
    if now.plan.fingerprint == file.plan.fingerprint:
        say(f"The state is the one that was planned for: fingerprint {now.plan.fingerprint}.")
        return True
    told = differences(file.plan, now.plan, objects, same_nodes=same_nodes)
    if not told:
        say("The state has changed since, but not where it matters.")
        return True
    say(listed("The plan does not hold any more; nothing was created.", told, "outcomes", every=verbose))
    say(state_text(list(changes(file.parts, now.parts)), every=verbose))
    return False


def _create(creator: Creator, file: PlanFile, objects: Sequence[RawObject], dry_run: bool) -> None:
    """Create the objects, and say what exists then."""
    from extender.operate.plan_apply import ApplyError

    new = {each.target for each in objects}
    for each in file.changes.create:
        if each.target not in new:
            say(f"{each.target} exists already, and is left as it is")
    if dry_run:
        say("\n".join([*(f"{each.target} would be created" for each in objects), "Nothing was created."]))
        return
    done = creator.create(objects)
    for each in done.made:
        say(f"{each.target} created")
    if done.failure:
        left = ", ".join(str(each.target) for each in done.left)
        raise ApplyError(f"{done.failure}\nDo not exist: {left}. Calling this again creates them.")
