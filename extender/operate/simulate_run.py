"""`waggle simulate --trace FILE`: runs algorithms on a workload, and writes what came of it.

A run that is interrupted with Ctrl-C writes its checkpoint before it ends, if it has one.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import typer

from extender.lab.comparing import Observer, compare
from extender.lab.results import Results, encode
from extender.lab.run.simulation import Simulation
from extender.lab.showing.page import page_of
from extender.operate.output import say
from extender.operate.refusal import refuse
from extender.operate.simulate_options import Given, runs_of, workload_of
from extender.operate.simulate_text import text_of

#: Steps of the progress on a terminal, for each run.
_STEPS = 1000


class Outputs(NamedTuple):
    """Where results go; None: nowhere."""

    json: Path | None
    html: Path | None = None


def simulate_workload(given: Given, outputs: Outputs) -> None:
    """Run everything, and write the results. Raises typer.Exit with status 2 for what cannot be used."""

    try:
        workload = workload_of(given)
        runs = runs_of(given)
        with _progress([run.name or run.algorithm for run in runs]) as observe:
            results = compare(workload, runs, observe)
        _write(results, outputs)
    except (OSError, ValueError) as error:
        raise refuse(error) from error


@contextmanager
def _progress(names: list[str]) -> Iterator[Observer]:
    """Shows how far the runs are, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _number, _simulation: None
        return
    with typer.progressbar(length=_STEPS * len(names), label=names[0], file=sys.stderr) as bar:
        shown = 0

        def observe(number: int, simulation: Simulation) -> None:
            nonlocal shown
            reached = number * _STEPS + int(simulation.fraction * _STEPS)
            if reached > shown:
                bar.label = names[number]
                bar.update(reached - shown)
                shown = reached

        yield observe
        bar.update(_STEPS * len(names) - shown)


def _write(results: Results, outputs: Outputs) -> None:
    if outputs.html is not None:
        command = shlex.join(["waggle", *sys.argv[1:]])
        outputs.html.write_text(page_of(results, command=command), encoding="utf-8")

    if outputs.json is not None and str(outputs.json) == "-":
        say(encode(results).decode(), nl=False)
        return
    if outputs.json is not None:
        outputs.json.write_bytes(encode(results))
    say(text_of(results))
