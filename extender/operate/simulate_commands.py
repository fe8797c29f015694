"""`waggle simulate`: what algorithms would do with a trace. It needs no cluster.

Exit status: 0 simulated; 2 the files or options cannot be used. Of a study, also 1: its first statement does not hold.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from extender.operate.refusal import refuse
from extender.operate.study_commands import StudyName, run_study

#: What stands for the published experiment in place of a file.
_PUBLISHED = "openb"


class PolicyName(StrEnum):
    """The policies of the algorithm `fgd`."""

    FGD = "fgd"
    RANDOM = "random"
    DOTPROD = "dotprod"
    CLUSTERING = "clustering"
    PACKING = "packing"
    BESTFIT = "bestfit"


def add_simulate_command(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("simulate")(simulate)


def simulate(
    trace: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="The trace: files or folders. `openb` is the published experiment of fgd."),
    ] = None,
    trace_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Its format. Default: recognised by its contents.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar="FILE|NUMBER", help="The nodes, if the trace has none or others.")
    ] = None,
    node_shape: Annotated[
        str | None,
        typer.Option(
            metavar="SHAPE", help="cpu=64,memory=256Gi,nvidia.com/gpu=8,label:rack=r%d/8: of a NUMBER of nodes."
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[RUN=]NAME", help="An algorithm; several are compared. RUN is what the column is called."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN=FILE", help="A waggle.yaml for a run, or the algorithm's own settings."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**62, help="Of ties. Of the experiment of fgd: of the order of pods; 42 to 51."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Simulate only this number of jobs, the first ones.")
    ] = None,
    horizon: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after this time of the trace: 12h, 7d.")
    ] = None,
    saves_every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Evicted jobs begin again where they saved their work last. Default: never."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the results to this file as JSON; - is the output."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write there how far the runs are, so that they can go on. Removed at the end."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on from this checkpoint, with the same other options.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write them to this file as a page with figures.")
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave broken lines of the trace out; the first 20 are named.")
    ] = False,
    policy: Annotated[
        PolicyName, typer.Option(help="Of the experiment of fgd: how nodes are chosen.")
    ] = PolicyName.FGD,
    pods: Annotated[Path | None, typer.Option(metavar="PODS.csv", help="Of the experiment of fgd: the pods.")] = None,
    study: Annotated[
        StudyName | None,
        typer.Option(help="A study of ours instead of a trace: sharing is that of docs/hived-sharing.md."),
    ] = None,
    days: Annotated[float | None, typer.Option(min=1, max=365, help="Of the study: days in which jobs come.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the study's figure to this file.")] = None,
) -> None:
    """Run the jobs of a trace under one or several algorithms, in virtual time, and compare what came of it.

        waggle simulate --trace jobs.json --algorithm packing --algorithm fgd
            --nodes 100 --node-shape cpu=96,nvidia.com/gpu=8

    The scheduling state, the algorithm and the settings are those that run live. docs/simulate.md has the formats of
    traces, and says what is measured.

    With --pods it is the experiment of "Beware of Fragmentation" (USENIX ATC 2023), which docs/algorithm-fgd.md shows.

    Exit status: 0 simulated; 2 the files or options cannot be used. Of a study, also 1: its statement does not hold.
    """
    if study is not None:
        raise run_study(study, days=days, seed=seed, svg=svg)
    if pods is not None or trace == [_PUBLISHED]:
        if nodes is None or pods is None or not set(algorithm or ()) <= {"fgd"}:
            raise refuse(ValueError("expected --nodes NODES.csv, --pods PODS.csv, and no algorithm but fgd"))
        from extender.operate.fgd_study_command import FIRST_SEED, run_fgd_study

        chosen = FIRST_SEED if seed is None else seed
        run_fgd_study(Path(nodes), pods, policy=policy.value, seed=chosen, json_file=json_file)
        return
    if not trace or not algorithm:
        raise refuse(ValueError("expected --trace and --algorithm, or --study"))
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
