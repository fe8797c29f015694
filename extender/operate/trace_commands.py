"""`waggle trace`: makes workloads for simulations, and shows and converts those of others.

Exit status: 0 made or shown; 2 files or options cannot be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.logs.printable import printable
from extender.operate.help import App
from extender.operate.output import remark, say, say_json
from extender.operate.output_files import check_outputs, ended_by_sigterm, write_output
from extender.operate.refusal import refuse

if TYPE_CHECKING:
    from extender.lab.workload import Workload


class RecipeName(StrEnum):
    """The recipes of the generator."""

    PHILLY = "philly"
    HELIOS = "helios"
    PAI = "pai"
    LLM = "llm"


class FormatName(StrEnum):
    """The formats of traces."""

    OPENB = "openb"
    PAI = "pai"
    PHILLY = "philly"
    HELIOS = "helios"
    SPOT = "spot"
    AZURE = "azure"
    WAGGLE = "waggle"


class Rate(StrEnum):
    """Published rates at which nodes fail."""

    RSC1 = "rsc-1"
    LLAMA3 = "llama-3"


OutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the workload to this file, compressed if it ends in .gz."),
]


def add_trace_commands(app: typer.Typer) -> None:
    """Add `waggle trace` and its commands to `app`."""
    commands = App(help="Make workloads for `waggle simulate`, and look at traces.")
    commands.command("generate")(generate)
    commands.command("show")(show)
    app.add_typer(commands, name="trace")


def generate(
    recipe: Annotated[RecipeName, typer.Argument(help="The cluster whose jobs they look like.")],
    out: OutOption = None,
    nodes: Annotated[int, typer.Option(min=1, max=20_000, help="Nodes with 8 GPUs.")] = 100,
    days: Annotated[float, typer.Option(min=0.01, max=3650, help="Days in which jobs arrive.")] = 7,
    load: Annotated[float, typer.Option(min=0.01, max=10, help="Share of the GPU time that the jobs need.")] = 0.8,
    tenants: Annotated[
        int, typer.Option(min=1, max=1000, help="Tenants; the second has half as many jobs as the first, and so on.")
    ] = 5,
    daily: Annotated[
        float,
        typer.Option(min=0, max=1, help="How much arrivals vary over the day: 0 (not) to 1 (none at night)."),
    ] = 0.5,
    spot: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of jobs with low priority. Default: an estimate."),
    ] = None,
    mtbf_days: Annotated[
        float | None, typer.Option(min=0.01, max=1e6, help="Days between two failures of a node. Default: none fails.")
    ] = None,
    failures: Annotated[
        Rate | None, typer.Option(help="Failures as often as published for a cluster; instead of --mtbf-days.")
    ] = None,
    repair_hours: Annotated[
        float | None, typer.Option(min=0.001, max=1e5, help="Mean hours until a node is back. Default: 6.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Another seed gives other jobs.")] = 1,
) -> None:
    """Make a workload that looks like the jobs of a real cluster.

        waggle trace generate philly --nodes 50 --days 7 --load 1.2 --out philly.json

        waggle simulate --trace philly.json --algorithm packing

    philly and helios have published statistics: durations and sizes of a fit to the Philly trace; median and mean
    duration and number of GPUs of Helios. The other numbers of helios, and all numbers of pai and llm, are estimated.
    docs/simulate.md has the sources, and each workload says it in its remarks.

    The same options give the same file, byte for byte.
    """
    from extender.lab.generator import MTBF_DAYS, REPAIR_HOURS, SPOT_SHARE, Options
    from extender.lab.generator import generate as made

    if mtbf_days is not None and failures is not None:
        raise refuse(ValueError("expected one of --mtbf-days and --failures"))
    if repair_hours is not None and mtbf_days is None and failures is None:
        raise refuse(ValueError("--repair-hours: does nothing without --failures or --mtbf-days"))
    try:
        options = Options(
            nodes=nodes,
            days=days,
            load=load,
            tenants=tenants,
            daily=daily,
            spot=SPOT_SHARE if spot is None else spot,
            mtbf_days=mtbf_days if failures is None else MTBF_DAYS[failures.value],
            repair_hours=REPAIR_HOURS if repair_hours is None else repair_hours,
            seed=seed,
        )
        check_outputs([("--out", out)], [])
        with ended_by_sigterm():
            _hand_out(made(recipe.value, options), out)
        if out is None:
            remark("the workload was not written: --out FILE writes it")
    except (OSError, ValueError) as error:
        raise refuse(error) from error


def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The files of a trace, or folders with them.")],
    trace_format: Annotated[
        FormatName | None, typer.Option("--format", help="The trace's format. Default: recognised by its contents.")
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave broken lines out, and name the first 20.")
    ] = False,
    out: OutOption = None,
) -> None:
    """Read a trace and say what is in it, what was left out, and what was assumed. With --out, write it as a workload.

    waggle trace show cluster_job_log cluster_machine_list --out philly.json
    """
    from extender.lab.importers import load

    try:
        chosen = None if trace_format is None else trace_format.value
        check_outputs([("--out", out)], files)
        with ended_by_sigterm():
            _hand_out(load(files, chosen, skip_broken=skip_broken), out)
    except (OSError, ValueError) as error:
        raise refuse(error) from error


def _hand_out(workload: Workload, out: Path | None) -> None:
    """Write the workload where it was asked for, and say what is in it."""
    import gzip

    from extender.lab.workload_file import encode

    if out is not None and str(out) == "-":
        say_json(encode(workload).decode(), nl=False)
        return
    if out is not None:
        text = encode(workload)
        # Without the time and name of the file, so that the same workload gives the same bytes.
        write_output(out, gzip.compress(text, mtime=0) if out.suffix == ".gz" else text)
    say(_summary(workload))


def _summary(workload: Workload) -> str:
    from extender.lab.workload import CPU, GPU

    jobs = workload.jobs
    pods = sum(job.pods for job in jobs)
    lines = [f"{workload.name}: {len(jobs):,} job{'s' * (len(jobs) != 1)}, {pods:,} pod{'s' * (pods != 1)}"]
    lines += [_nodes(workload)] if workload.nodes else ["no nodes: give them to waggle simulate with --nodes"]
    if jobs:
        seconds = sorted(job.seconds for job in jobs if job.seconds is not None)
        gpus = sum(job.gpu_milli * (job.seconds or 0) for job in jobs) / 1000 / 3600
        cores = sum(job.requests.get(CPU, 0) * job.pods * (job.seconds or 0) for job in jobs) / 1000 / 3600
        share = sum(job.requests.get(GPU, 0) > 0 for job in jobs) / len(jobs)
        largest = max(job.pods for job in jobs)
        lines += [
            f"arrivals: over {(jobs[-1].arrival - jobs[0].arrival) / 86_400:.1f} days",
            f"run time: {_spread(seconds)}" if seconds else "run time: they run for ever",
            f"needed: {gpus:,.0f} GPU hours, {cores:,.0f} core hours; {share:.0%} of the jobs need GPUs",
            f"gangs: {sum(job.gang for job in jobs):,}, the largest with {largest:,} pod{'s' * (largest != 1)}",
            f"tenants: {len({job.tenant for job in jobs}):,}, priorities: {_named({job.priority for job in jobs})}",
        ]
    lines += [f"failures: {len(workload.failures):,}"] if workload.failures else []
    return "\n".join(map(printable, [*lines, *(f"- {remark}" for remark in workload.remarks)]))


def _nodes(workload: Workload) -> str:
    from extender.lab.workload import CPU, GPU

    gpus = sum(node.capacity.get(GPU, 0) for node in workload.nodes) // 1000
    cores = sum(node.capacity.get(CPU, 0) for node in workload.nodes) // 1000
    models = sorted({node.gpu_model for node in workload.nodes if node.gpu_model})
    return f"nodes: {len(workload.nodes):,} with {gpus:,} GPUs ({_named(models) or 'no model'}) and {cores:,} cores"


def _spread(ordered: Sequence[float]) -> str:
    """Median, 90th percentile and longest of some seconds."""
    half, most = ordered[(len(ordered) - 1) // 2], ordered[(len(ordered) - 1) * 9 // 10]
    return f"median {half:,.0f} s, 90 % within {most:,.0f} s, longest {ordered[-1]:,.0f} s"


def _named(values: object) -> str:
    """Up to ten of some values."""
    assert isinstance(values, set | list)
    ordered = sorted(values)
    more = f" and {len(ordered) - 10} more" if len(ordered) > 10 else ""
    return ", ".join(str(each) for each in ordered[:10]) + more
