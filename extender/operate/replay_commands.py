"""`waggle replay`: makes all decisions of a recording again, shows a moment or single steps of it, or compares it with
what another algorithm would have done.

Exit status: 0 all decisions are the same, or shown; 1 a decision differs; 2 the log or an option cannot be used, or the
log has nothing to replay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from extender.operate.output import say
from extender.operate.refusal import refuse
from extender.operate.waggle_options import Format, OutputOption

#: MiB that a replay may hold; as `recording/held.py` has it, which is imported only when it is needed.
MOST_MIB = 4096
#: The port of pages, unless another one is given.
_PORT = 9096

LogArgument = Annotated[
    Path,
    typer.Argument(
        metavar="LOG", help="The folder of `serve --record`, one of its files, or the output of `record cut`."
    ),
]


def run_option(default: str) -> Any:
    """Return the option that selects a run of the server."""
    return typer.Option("--run", metavar="N", min=1, help=f"The Nth run of the server in the log. Default: {default}.")


MemoryOption = Annotated[
    int,
    typer.Option(
        "--memory-mib", metavar="N", min=1, max=1 << 20, help="MiB of memory that pods, nodes and offers may take."
    ),
]
RunOption = Annotated[int | None, run_option("all of them; of --at, --step and comparisons the latest")]


def add_replay_command(app: typer.Typer) -> None:
    """Make it a command of `app`."""
    app.command("replay")(replay)


def replay(
    log: LogArgument,
    run: RunOption = None,
    at: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Show this moment: 2026-11-24T13:05:00Z, +10m after the first event, the number of an event, or end.",
        ),
    ] = "",
    pod: Annotated[
        str, typer.Option(metavar="NS/NAME", help="With --at: explain this pod, as `waggle explain` does.")
    ] = "",
    output: OutputOption = Format.TEXT,
    serve: Annotated[
        bool, typer.Option("--serve", help="With --at: serve the pages of that moment on 127.0.0.1, read-only.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="With --serve: the port, by default 9096; 0 is any free one."),
    ] = None,
    step: Annotated[
        bool, typer.Option("--step", help="Go through the events, from --at on; h lists the commands.")
    ] = False,
    algorithm: Annotated[
        str, typer.Option(metavar="OTHER", help="What would have been different under this algorithm?")
    ] = "",
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW.yaml",
            help="What would have been different with this configuration, or these settings of the algorithm?",
        ),
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a timeline of the comparison.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the comparison as a page with all measures."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the three results as JSON; - is standard output."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**62, help="Decides ties in the simulations of a comparison.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Replay a log of format 1 even if this program's constants differ.")
    ] = False,
    memory_mib: MemoryOption = MOST_MIB,
    jobs: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=1024,
            help="Processes that replay the parts of a long log; 0: one a core, at most 8.",
        ),
    ] = 0,
) -> None:
    """Make all decisions of a recording again, at their recorded times but without waiting, and compare them.

    It says that every decision is the same, or shows the first that differs: the event, both decisions with their
    reasons, and the history of the pod. It also replays logs of older releases, or says why it cannot.

        waggle serve --record /var/lib/waggle/record
        waggle replay /var/lib/waggle/record

    With --at or --step it shows the cluster as it was, and what happened (docs/replay.md):

        waggle replay LOG --at +10m --pod default/train-0
        waggle replay LOG --at 2026-11-24T13:05:00Z --serve
        waggle replay LOG --step

    With --algorithm or --settings it shows what would have been different: what happened, a simulation of that, and a
    simulation with the change.

        waggle replay LOG --algorithm fgd --svg timeline.svg
        waggle replay LOG --settings new.yaml

    Exit status: 0 all decisions are the same, or shown; 1 a decision differs; 2 the log or an option cannot be used.
    """
    compares = bool(algorithm or settings)
    _check_options(
        ("--at", bool(at), not compares),
        ("--pod", bool(pod), bool(at) and not (serve or step)),
        ("--serve", serve, bool(at) and not step),
        ("--port", port is not None, serve),
        ("--output", output is not Format.TEXT, bool(at) and not (serve or step)),
        ("--step", step, not compares),
        *((name, value is not None, compares) for name, value in (("--svg", svg), ("--html", html))),
        ("--json", json_file is not None, compares),
        ("--seed", seed is not None, compares),
        ("--jobs", jobs > 0, not (compares or at or step)),
    )
    if compares:
        from extender.operate.replay_compare import Files, compare_with
        from extender.operate.replay_modes import Which

        compare_with(
            Which(log, run, anyway, memory_mib), algorithm, settings, Files(svg, json_file, html), seed=seed or 0
        )
    elif step:
        from extender.operate.replay_modes import Which, step_through

        step_through(Which(log, run, anyway, memory_mib), at)
    elif at:
        from extender.operate.replay_modes import Look, Which, look_at

        chosen = _PORT if port is None else port
        look_at(Which(log, run, anyway, memory_mib), at, Look(pod, output is Format.JSON, chosen if serve else None))
    else:
        _compare_decisions(log, run, memory_mib, jobs, anyway=anyway)


_NEEDS = {
    "--at": "shows a moment, and cannot be combined with --algorithm or --settings",
    "--pod": "needs --at, and cannot be combined with --serve or --step",
    "--serve": "needs --at, and cannot be combined with --step",
    "--port": "needs --serve",
    "--seed": "needs --algorithm or --settings",
    "--output": "needs --at, and cannot be combined with --serve or --step",
    "--step": "cannot be combined with --algorithm or --settings",
    "--svg": "needs --algorithm or --settings",
    "--html": "needs --algorithm or --settings",
    "--json": "needs --algorithm or --settings",
    "--jobs": "cannot be combined with --at, --step, --algorithm or --settings",
}


def _check_options(*options: tuple[str, bool, bool]) -> None:
    """Refuse options that were given but have no effect here."""
    for name, is_given, is_of_use in options:
        if is_given and not is_of_use:
            raise refuse(ValueError(f"{name} {_NEEDS[name]}"))


def _compare_decisions(log: Path, run: int | None, memory_mib: int, jobs: int, *, anyway: bool) -> None:
    from algorithm.registry import AlgorithmError
    from extender.operate.replay_check import NOTHING, check
    from extender.operate.replay_jobs import default_jobs
    from extender.operate.standstill import standstill_said
    from extender.recording.log import open_log
    from extender.recording.records import RecordingError

    try:
        with standstill_said():
            status = check(open_log(log).hold(memory_mib), say, run=run, anyway=anyway, jobs=jobs or default_jobs())
    except (AlgorithmError, RecordingError, OSError) as error:
        raise refuse(error) from error
    if status == NOTHING:
        raise refuse(ValueError(f"{log}: it has no event that can be replayed"))
    raise typer.Exit(status)
