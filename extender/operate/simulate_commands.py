"""`waggle simulate`: what algorithms would do with a trace. It needs no cluster.

Exit status: 0 simulated; 2 the files or options cannot be used. Of a study, also 1: its first statement does not hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from extender.operate.refusal import refuse
from extender.operate.study_commands import StudyName, run_study

if TYPE_CHECKING:
    from algorithm.fgd.settings import Policy

#: What stands for the published experiment in place of a file.
_PUBLISHED = "openb"
#: The policies of the algorithm `fgd`.
_POLICIES = ("fgd", "random", "dotprod", "clustering", "packing", "bestfit")
#: How the paper spells some of them, without what `_policy` takes away.
_SPELLINGS = {"randomfit": "random", "dotproduct": "dotprod"}


def _policy(text: str) -> str:
    """Return the policy of `fgd` with this name, or with the paper's or its results' name: Best-fit, 04-GpuPacking.

    Raises typer.BadParameter for any other name.
    """
    name = "".join(letter for letter in text.lower() if letter.isalpha()).removeprefix("gpu")
    found = _SPELLINGS.get(name, name)
    if found not in _POLICIES:
        raise typer.BadParameter(f"expected one of {', '.join(_POLICIES)}, got {text[:50]!r}")
    return found


def add_simulate_command(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("simulate")(simulate)


#: The options of a study and of the published experiment; and what those are for that only these have.
_OF_STUDY = frozenset({"study", "days", "seed", "svg"})
_OF_EXPERIMENT = frozenset({"trace", "nodes", "pods", "algorithm", "policy", "seed", "json_file"})
_ONLY_THERE = {"days": "--study", "svg": "--study", "policy": "the fgd experiment (--pods)"}


def _refuse_others(context: typer.Context, usable: frozenset[str], what: str) -> None:
    """Refuse an option that was given and would do nothing."""
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name)
        if given is not None and given.name == "COMMANDLINE" and name not in usable:
            raise refuse(ValueError(f"{parameter.opts[0]}: does nothing {what}"))


def simulate(
    context: typer.Context,
    trace: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="The trace: files or folders. `openb` is the published experiment of fgd."),
    ] = None,
    trace_format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="The trace's format. Default: recognised by its contents."),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(metavar="FILE|NUMBER", help="The nodes: a file, or a number. Default: those of the trace."),
    ] = None,
    node_shape: Annotated[
        str | None,
        typer.Option(
            metavar="SHAPE", help="With a NUMBER of nodes: cpu=64,memory=256Gi,nvidia.com/gpu=8,label:rack=r%d/8"
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(metavar="[RUN=]NAME", help="An algorithm; repeat it to compare several. RUN names the column."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN=FILE", help="The settings of a run: a waggle.yaml, or the algorithm's own."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**62, help="Decides ties; in the fgd experiment, the order of pods (42 to 51)."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="NUMBER", help="Simulate only the first jobs.")] = None,
    horizon: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after this time of the trace: 12h, 7d.")
    ] = None,
    saves_every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Evicted jobs continue from their last save. Default: they never save."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the results as JSON; - is standard output."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the state of the runs, to continue with --resume. Removed at the end."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Continue from this checkpoint, with the same options.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results as a page with figures.")] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave broken lines out, and name the first 20.")
    ] = False,
    policy: Annotated[
        str,
        typer.Option(
            parser=_policy,
            metavar="NAME",
            help=f"In the fgd experiment, how nodes are chosen: {', '.join(_POLICIES)}; or as the paper spells it.",
        ),
    ] = "fgd",
    pods: Annotated[Path | None, typer.Option(metavar="PODS.csv", help="The pods of the fgd experiment.")] = None,
    study: Annotated[
        StudyName | None,
        typer.Option(help="Run a study instead: sharing is that of docs/hived-sharing.md."),
    ] = None,
    days: Annotated[float | None, typer.Option(min=1, max=365, help="In the study: days in which jobs arrive.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the study's figure to this file.")] = None,
) -> None:
    """Run the jobs of a trace under one or several algorithms, in virtual time, and compare the results.

        waggle simulate --trace jobs.json --algorithm packing --algorithm fgd
            --nodes 100 --node-shape cpu=96,nvidia.com/gpu=8

    The state machine, the algorithm and the settings are those of the server. docs/simulate.md has the formats of
    traces, and says what is measured.

    With --pods it repeats the fgd experiment, that of "Beware of Fragmentation" (USENIX ATC 2023): see
    docs/algorithm-fgd.md.

    Exit status: 0 simulated; 1 the statement of a study does not hold; 2 the files or options cannot be used.
    """
    if study is not None:
        _refuse_others(context, _OF_STUDY, "with --study")
        raise run_study(study, days=days, seed=seed, svg=svg)
    if pods is not None or trace == [_PUBLISHED]:
        if nodes is None or pods is None or not set(algorithm or ()) <= {"fgd"}:
            folder = "; a folder of this name is ./openb" if trace == [_PUBLISHED] and Path(_PUBLISHED).exists() else ""
            raise refuse(ValueError(f"expected --nodes NODES.csv, --pods PODS.csv, and no algorithm but fgd{folder}"))
        _refuse_others(context, _OF_EXPERIMENT, "in the fgd experiment (--pods)")
        from extender.operate.fgd_study_command import FIRST_SEED, run_fgd_study

        chosen = FIRST_SEED if seed is None else seed
        run_fgd_study(Path(nodes), pods, policy=cast("Policy", policy), seed=chosen, json_file=json_file)
        return
    if not trace or not algorithm:
        raise refuse(ValueError("expected --trace and --algorithm, or --study"))
    names = frozenset(parameter.name or "" for parameter in context.command.params)
    for name, where in _ONLY_THERE.items():
        _refuse_others(context, names - {name}, f"with a trace: it is for {where}")
    from extender.operate.simulate_options import Given
    from extender.operate.simulate_run import Outputs, simulate_workload

    given = Given(
        trace=[Path(each) for each in trace],
        format=trace_format,
        nodes=nodes,
        node_shape=node_shape,
        algorithms=algorithm,
        settings=settings or [],
        seed=seed or 0,
        limit=limit,
        horizon=horizon,
        saves_every=saves_every,
        skip_broken=skip_broken,
    )
    simulate_workload(given, Outputs(json_file, html, checkpoint, resume))
