"""`waggle simulate --trace FILE`: runs algorithms on a workload, and writes what came of it.

With a checkpoint, a run may end at any time, by Ctrl-C, SIGTERM or kill -9, and go on later.
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import typer

from extender.lab.checkpoints import CheckpointError, Keeper, read
from extender.lab.comparing import Comparison
from extender.lab.report.page import page_of
from extender.lab.results import Results, pieces
from extender.lab.run.simulation import RunOptions
from extender.lab.workload import Workload
from extender.operate.output import remark, say, say_json
from extender.operate.output_files import TERMINATED, check_outputs, ended_by_sigterm, write_output
from extender.operate.plugin_prints import prints_on_stderr
from extender.operate.refusal import INTERRUPTED, refuse, stopped_by_ctrl_c
from extender.operate.simulate_options import Given, OptionError, inputs_of, runs_of, workload_of
from extender.operate.simulate_text import text_of
from extender.operate.standstill import standstill_said

#: Steps of the progress on a terminal, for each run.
_STEPS = 1000
#: Seconds between two checkpoints, and how much longer than writing one they are apart at least.
_OFTEN, _SHARE = 30.0, 20.0
#: Exit status of a run that a signal ended.
_STATUS = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


class Outputs(NamedTuple):
    """Where results go, and checkpoints; None: nowhere. `resume` is the checkpoint from which the runs go on."""

    json: Path | None
    html: Path | None = None
    checkpoint: Path | None = None
    resume: Path | None = None


def simulate_workload(given: Given, outputs: Outputs) -> None:
    """Run everything, and write the results.

    Raises typer.Exit with status 2 for what cannot be used, 1 if a run was stopped since its algorithm fails again and
    again, and 130 after Ctrl-C.
    """
    try:
        with stopped_by_ctrl_c(), ended_by_sigterm(), standstill_said():
            is_complete = _simulate(given, outputs)
    except (OSError, ValueError) as error:
        raise refuse(error) from error
    if not is_complete:
        raise typer.Exit(1)


def _simulate(given: Given, outputs: Outputs) -> bool:
    """Return whether all runs came to their end."""
    files = (("--html", outputs.html), ("--json", outputs.json), ("--checkpoint", outputs.checkpoint))
    resumed = [] if outputs.resume is None or outputs.resume == outputs.checkpoint else [outputs.resume]
    check_outputs(files, [*inputs_of(given), *resumed])
    with prints_on_stderr():
        workload, runs = workload_of(given), runs_of(given)
        comparison, keeper = _begun(workload, runs, outputs)
        with _named(outputs.resume):
            _run(comparison, [run.name for run in runs], keeper)
            results = comparison.results()
    _write(results, outputs)
    if keeper is not None:
        keeper.path.unlink(missing_ok=True)
    return not any(run.stopped for run in results.runs)


@contextmanager
def _named(checkpoint: Path | None) -> Iterator[None]:
    """Let a run that fails unexpectedly name the checkpoint from which it was resumed: a state that somebody changed,
    digest included, can fail anywhere. Raises CheckpointError."""
    try:
        yield
    except (OSError, ValueError, RuntimeError):  # typer.Exit is a RuntimeError
        raise
    except Exception as error:
        if checkpoint is None:
            raise
        raise CheckpointError(
            f"{checkpoint}: the run that was resumed from this checkpoint failed ({type(error).__name__}: {error}). "
            "Either the file was changed, or the algorithm is wrong: without --resume the run says where"
        ) from error


def _begun(workload: Workload, runs: list[RunOptions], outputs: Outputs) -> tuple[Comparison, Keeper | None]:
    """Return the runs, from the checkpoint on if one is given."""
    path = outputs.checkpoint or outputs.resume
    if outputs.checkpoint is not None and outputs.checkpoint != outputs.resume and outputs.checkpoint.exists():
        raise OptionError(f"--checkpoint: {path} exists: expected --resume {path}, or another file")
    progress = None if outputs.resume is None else read(outputs.resume, workload, runs)
    comparison = Comparison(workload, runs, progress)
    return comparison, None if path is None else Keeper(path, workload, runs)


# -- running -------------------------------------------------------------------------------------------------------


def _run(comparison: Comparison, names: list[str], keeper: Keeper | None) -> None:
    """Let everything happen. Raises typer.Exit after Ctrl-C or SIGTERM if a checkpoint is kept, once it is written."""
    pace = _Pace()
    if keeper is not None and comparison.advance():  # what cannot have checkpoints is refused at once
        keeper.keep(comparison.progress)
    with _interruptible(keeper is not None) as pressed, _progress(names) as show:
        while comparison.advance():
            show(comparison)
            if keeper is None:
                continue
            is_interrupted = bool(pressed)
            if is_interrupted or pace.is_due():
                keeper.keep(comparison.progress)
                pace.done()
            if is_interrupted:
                break
        else:
            return
    # Now that the progress bar has ended its line.
    remark(f"interrupted; --resume {keeper.path} goes on" if keeper is not None else "interrupted")
    raise typer.Exit(_STATUS[pressed[0]])


class _Pace:
    """When the next checkpoint is written: so seldom that they take a small share of the time."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _OFTEN
        self._began = 0.0

    def is_due(self) -> bool:
        self._began = time.monotonic()
        return self._began >= self._next

    def done(self) -> None:
        now = time.monotonic()
        self._next = now + max(_OFTEN, _SHARE * (now - self._began))


@contextmanager
def _interruptible(wanted: bool) -> Iterator[Sequence[signal.Signals]]:
    """The signals that came, Ctrl-C or SIGTERM: the run then ends between two moments. A second one ends it at once."""
    pressed: list[signal.Signals] = []

    def press(number: int, frame: FrameType | None) -> None:
        pressed.append(signal.Signals(number))
        if len(pressed) > 1:
            usual = before[signal.Signals(number)]
            if callable(usual):
                usual(number, frame)

    if not wanted:
        yield pressed
        return
    before = {number: signal.signal(number, press) for number in _STATUS}
    try:
        yield pressed
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


@contextmanager
def _progress(names: list[str]) -> Iterator[Callable[[Comparison], None]]:
    """Shows how far the runs are, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _comparison: None
        return
    with typer.progressbar(length=_STEPS * len(names), label=names[0], file=sys.stderr) as bar:
        shown = 0

        def show(comparison: Comparison) -> None:
            nonlocal shown
            current = comparison.progress.current
            reached = comparison.number * _STEPS + (int(current.fraction * _STEPS) if current is not None else 0)
            if reached > shown:
                bar.label = names[min(comparison.number, len(names) - 1)]
                bar.update(reached - shown)
                shown = reached

        yield show


# -- results -------------------------------------------------------------------------------------------------------


def _write(results: Results, outputs: Outputs) -> None:
    if outputs.html is not None:
        command = shlex.join(["waggle", *sys.argv[1:]])
        write_output(outputs.html, page_of(results, command=command))
    if outputs.json is not None and str(outputs.json) == "-":
        for piece in pieces(results):
            say_json(piece.decode(), nl=False)
        return
    if outputs.json is not None:
        write_output(outputs.json, pieces(results))
    say(text_of(results))
