"""`waggle simulate`: what an algorithm would do with a trace. It needs no cluster.

Exit status: 0 simulated; 2 the files or options cannot be used.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.operate.output import say
from extender.operate.refusal import refuse
from extender.operate.study_commands import StudyName, run_study

if TYPE_CHECKING:
    from extender.lab.fgd_study import Columns, Study

#: Pods between two updates of the progress on a terminal.
_OFTEN = 200
#: The columns that the text shows, per cent of arrived requests.
_SHOWN = (25, 50, 75, 90, 95, 100, 130)


class Trace(StrEnum):
    """The formats of traces."""

    OPENB = "openb"


class Simulated(StrEnum):
    """The algorithms that can be simulated."""

    FGD = "fgd"


class PolicyName(StrEnum):
    """The policies of the algorithm."""

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
    nodes: Annotated[Path | None, typer.Option(metavar="NODES.csv", help="The nodes of the trace.")] = None,
    pods: Annotated[Path | None, typer.Option(metavar="PODS.csv", help="The pods of the trace.")] = None,
    trace: Annotated[Trace, typer.Option(help="The format: openb is that of Alibaba's traces of 2023.")] = Trace.OPENB,
    algorithm: Annotated[Simulated, typer.Option(help="The algorithm that places the pods.")] = Simulated.FGD,
    policy: Annotated[PolicyName, typer.Option(help="How it chooses nodes.")] = PolicyName.FGD,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=2**62, help="Of the order in which pods come; those of the paper are 42 (default) to 51."
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the result to this file as JSON; - is the output."),
    ] = None,
    study: Annotated[
        StudyName | None,
        typer.Option(help="A study of ours instead of a trace: sharing is that of docs/hived-sharing.md."),
    ] = None,
    days: Annotated[float | None, typer.Option(min=1, max=365, help="Of the study: days in which jobs come.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the study's figure to this file.")] = None,
) -> None:
    """Place the pods of a trace one after the other and report how much of the GPUs is allocated and fragmented.

    The experiment of "Beware of Fragmentation" (USENIX ATC 2023): pods come in random order until they have asked for
    130 % of the cluster's GPUs, and none leaves. docs/algorithm-fgd.md shows the result for the published trace.

    Exit status: 0 simulated; 2 the files or options cannot be used.
    """
    if study is not None:
        raise run_study(study, days=days, seed=seed, svg=svg)
    if nodes is None or pods is None:
        raise refuse(ValueError("expected --nodes and --pods, or --study"))
    from extender.lab.fgd_study import Study, columns
    from extender.lab.openb import TraceError, read_nodes, read_pods

    seed = 42 if seed is None else seed
    try:
        with nodes.open(encoding="utf-8", newline="") as file:
            read = read_nodes(file, str(nodes))
        with pods.open(encoding="utf-8", newline="") as file:
            made = Study(read, read_pods(file, str(pods)), policy=policy.value, seed=seed)
    except (OSError, UnicodeDecodeError, TraceError) as error:
        raise refuse(error) from error
    found = columns(_with_progress(made), made.total)
    result = {"trace": trace.value, "algorithm": algorithm.value, "policy": policy.value, "seed": seed}
    result |= _numbers(made, found)
    if json_file is None:
        say(_text(made, found))
        return
    text = json.dumps(result, indent=1)
    try:
        if str(json_file) == "-":
            say(text)
        else:
            json_file.write_text(text + "\n", encoding="utf-8")
            say(_text(made, found))
    except OSError as error:
        raise refuse(error) from error


def _with_progress(study: Study) -> list[Any]:
    if not sys.stderr.isatty():
        return list(study.lines())
    lines = []
    with typer.progressbar(length=len(study.pods), label="placing pods", file=sys.stderr) as bar:
        for number, line in enumerate(study.lines(), 1):
            lines.append(line)
            if number % _OFTEN == 0:
                bar.update(_OFTEN)
    return lines


def _numbers(study: Study, found: Columns) -> dict[str, Any]:
    return {
        "total_gpus": study.total // 1000,
        "pods": len(study.pods),
        "failed": study.failed,
        "gpu_allocation_percent_at_100": found.allocation[100],
        "fragmentation_percent_of_cluster_at_100": found.amount[100],
        "fragmentation_percent_of_idle_at_100": found.ratio[100],
        "gpu_allocation_percent": found.allocation,
        "fragmentation_percent_of_cluster": found.amount,
        "fragmentation_percent_of_idle": found.ratio,
    }


def _text(study: Study, found: Columns) -> str:
    rows = [("requested", "allocated", "fragmented", "of what is idle")]
    for k in _SHOWN:
        rows.append((f"{k} %", _share(found.allocation[k]), _share(found.amount[k]), _share(found.ratio[k])))
    table = "\n".join("".join(f"{cell:>12}" if n < 3 else f"{cell:>18}" for n, cell in enumerate(row)) for row in rows)
    many = f"{len(study.pods)} pods, {study.failed} of them without a place, on {study.total // 1000} GPUs"
    return f"{many}. Per cent of all GPUs:\n{table}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} %"
