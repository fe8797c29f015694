"""`waggle conformance PACKAGE:PLUGIN`: tests whether a scheduling algorithm keeps its promises, and reports each.

Exit status: 0 it conforms; 1 it does not; 2 it cannot be tested at all (not imported, say, or its settings are wrong).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from extender.operate.output import remark, say
from extender.operate.output_files import ended_by_sigterm
from extender.operate.refusal import refuse


class ReportFormat(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


class ConformanceError(ValueError):
    """What was asked for cannot be done; the message says why."""


def add_conformance_commands(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("conformance")(conformance)


def conformance(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="[PACKAGE:PLUGIN]", help="The plug-in: a module and a name in it, or an installed algorithm's name."
        ),
    ] = "",
    settings: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="Settings of the algorithm, as `serve` reads them."),
    ] = None,
    output: Annotated[
        ReportFormat, typer.Option("--output", "-o", help="How the report is written.")
    ] = ReportFormat.TEXT,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this check; repeatable.")] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=REASON", help="Expect this check to fail; if it passes, that fails. Repeatable."),
    ] = None,
    list_checks: Annotated[bool, typer.Option("--list", help="List all checks, and test nothing.")] = False,
    world: Annotated[
        str, typer.Option(metavar="MODULE:NAME", help="Draw nodes and pods from these Worlds, not the plug-in's.")
    ] = "",
    exit_first: Annotated[
        bool, typer.Option("--exitfirst", "-x", help="Draw no more lives once a check has failed.")
    ] = False,
    lives: Annotated[
        int, typer.Option(min=1, max=100_000, help="The most lives (random cluster histories) to run.")
    ] = 100,
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="The CPU seconds that all of it may take.")] = 60.0,
    memory: Annotated[int, typer.Option(min=256, max=1 << 20, help="The MiB that the process may take.")] = 2048,
    limit: Annotated[float, typer.Option(min=0.1, max=3600, help="The seconds that one call may take.")] = 10.0,
    logs: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write each failure there as a log, for waggle replay LOG --step."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other lives.")] = 0,
) -> None:
    """Test whether a scheduling algorithm keeps the promises of the contract, algorithm/interface.py.

    It runs in a process of its own, through lives: random histories of small clusters, always the same ones for the
    same seed. A failure is shrunk and printed as a test that fails by itself. docs/conformance.md has the checks.

    Exit status: 0 it conforms; 1 it does not; 2 it cannot be tested at all.
    """
    from algorithm.conformance.catalogue import CHECKS  # noqa: PLC0415
    from algorithm.conformance.installed import how_to_open  # noqa: PLC0415
    from algorithm.conformance.logs import write_logs  # noqa: PLC0415
    from algorithm.conformance.report import as_json, as_junit, as_text, listed  # noqa: PLC0415 - only here

    if list_checks:
        say(listed())
        return
    until = [check.name for check in CHECKS] if exit_first else []
    try:
        with ended_by_sigterm():
            report = _report(
                plugin,
                settings,
                only or (),
                skip or (),
                until=until,
                world=world,
                lives=lives,
                seconds=seconds,
                limit=limit,
                memory=memory,
                seed=seed,
            )
    except (ValueError, OSError) as error:
        raise refuse(error) from error
    if report.unusable and output is ReportFormat.TEXT:
        remark(as_text(report), title="waggle", style="red")
    else:
        say({ReportFormat.TEXT: as_text, ReportFormat.JSON: as_json, ReportFormat.JUNIT: as_junit}[output](report))
    try:
        for result, path in write_logs(logs, report) if logs is not None else ():
            remark(f"{path}: {result.check}; open it with: {how_to_open(path, report.plugin)}")
    except OSError as error:
        raise refuse(error) from error
    raise typer.Exit(2 if report.unusable else 0 if report.conforms else 1)


def _report(plugin: str, settings: Path | None, only: Sequence[str], skip: Sequence[str], **more: Any) -> Any:
    from algorithm.conformance.catalogue import known  # noqa: PLC0415
    from algorithm.conformance.session import opted_out, request_of, run  # noqa: PLC0415

    if not plugin:
        raise ConformanceError("which plug-in? Give PACKAGE:PLUGIN, or --list for the checks")
    opted = dict(map(_name_and_reason, skip))
    known(opted)
    if settings is not None:
        more |= {"settings_text": settings.read_text(encoding="utf-8"), "settings_name": str(settings)}
    return opted_out(run(request_of(plugin=_findable(plugin), only=tuple(only), **more)), opted)


def _findable(plugin: str) -> str:
    """A file's name is absolute, since another process reads it."""
    where, colon, name = plugin.rpartition(":")
    return f"{Path(where).resolve()}:{name}" if colon and where.endswith(".py") else plugin


def _name_and_reason(text: str) -> tuple[str, str]:
    name, equals, why = text.partition("=")
    if not equals or not why.strip():
        raise ConformanceError(f"--skip {text}: expected NAME=REASON")
    return name, why.strip()
