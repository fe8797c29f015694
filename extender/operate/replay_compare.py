"""`waggle replay LOG --algorithm OTHER`, `--settings NEW.yaml`: what would have been different, as text and files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import typer

from extender.lab.report.page import page_of
from extender.lab.results import pieces
from extender.logs.printable import printable
from extender.operate.look_text import table as columns
from extender.operate.output import say, say_json
from extender.operate.output_files import check_outputs, write_output
from extender.operate.plugin_prints import prints_on_stderr
from extender.operate.refusal import refuse
from extender.operate.replay_modes import Which, refusing
from extender.operate.settings_files import configuration_text
from extender.operate.simulate_text import stopped
from extender.operate.standstill import standstill_said
from extender.replay import comparing
from extender.replay.counterfactual import Counterfactual, CounterfactualError, Other, Progress, counterfactual
from extender.replay.logs import Log
from extender.replay.timeline import timeline

#: Characters of what is shown of the progress.
_WIDTH = 78


class Files(NamedTuple):
    """Where the comparison goes beside its text; None: nowhere. `json` "-" is standard output, instead of the text."""

    svg: Path | None = None
    json: Path | None = None
    html: Path | None = None


def compare_with(which: Which, algorithm: str, settings: Path | None, files: Files, *, seed: int = 0) -> None:
    """Show what would have been different under another algorithm, or under other settings.

    Raises typer.Exit with status 1 if a simulation was stopped, since its algorithm fails again and again.
    """
    with refusing():
        options = [(f"--{option}", file) for option, file in files._asdict().items()]
        check_outputs(options, [which.path, *([settings] if settings else [])])
        try:
            with prints_on_stderr(), standstill_said(), _progress() as progress:
                log = which.open()
                decides = algorithm or log.header.algorithm
                text = configuration_text(settings, decides, any_algorithm=True) if settings else ""
                other = Other(algorithm, text, str(settings or "--settings"))
                made = counterfactual(log, other, seed=seed, progress=progress)
        except CounterfactualError as error:
            raise refuse(error) from error
        _write(made, log, files)
        if files.json is None or str(files.json) != "-":
            say(text_of(made, log))
        if any(run.stopped for run in comparing.runs_of(made)):
            raise typer.Exit(1)


def _write(made: Counterfactual, log: Log, files: Files) -> None:
    if files.svg is not None:
        title = f"{log.name}: what happened, the same simulated, and {made.other.name}"
        write_output(files.svg, timeline(comparing.runs_of(made), made.horizon, title))
    if files.html is not None:
        write_output(files.html, page_of(comparing.results(made)))
    if files.json is not None:
        found = pieces(comparing.results(made))
        if str(files.json) == "-":
            for piece in found:
                say_json(piece.decode(), nl=False)
        else:
            write_output(files.json, found)


def text_of(made: Counterfactual, log: Log) -> str:
    """Return the table, how good the simulation is, what differs most, and what was assumed."""
    parts = [columns(comparing.table(made)), *stopped(comparing.runs_of(made)), comparing.closeness(made)]
    if found := comparing.differences(made):
        lines = [f"  {printable(comparing.difference_text(each, made))}" for each in found]
        parts.append("\n".join([f"What differs most between {made.baseline.name} and {made.other.name}:", *lines]))
    parts.append(
        "\n".join(
            [
                f"What {log.name} does not contain, and what is assumed instead:",
                *(f"  {printable(each)}" for each in comparing.remarks(made)),
            ]
        )
    )
    return "\n\n".join(parts)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Shows on a terminal what is done."""
    is_terminal = sys.stderr.isatty()

    def show(what: str, share: float) -> None:
        if is_terminal:
            done = f"{what}, {share:.0%}" if share else what
            typer.echo(f"\r{done[:_WIDTH]:<{_WIDTH}}", nl=False, err=True)

    try:
        yield show
    finally:
        if is_terminal:
            typer.echo(f"\r{'':<{_WIDTH}}\r", nl=False, err=True)
