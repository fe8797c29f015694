"""What `waggle replay` does beyond comparing: it shows a moment (`--at`), or single steps (`--step`).

Each function raises typer.Exit with status 2 for what cannot be used, and with 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from algorithm.registry import AlgorithmError
from extender.operate.output import remark, say, say_json
from extender.operate.output_files import OutputError
from extender.operate.plugin_prints import prints_on_stderr
from extender.operate.refusal import refuse, stopped_by_ctrl_c
from extender.operate.replay_look import (
    UnknownPodError,
    as_json,
    explained,
    explanation_text,
    look_text,
    pages,
    serve_pages,
)
from extender.operate.replay_steps import HELP, Session
from extender.plan.reading.documents import InputError
from extender.recording.held import MOST_MIB
from extender.recording.records import RecordingError
from extender.replay.frozen import Frozen, freeze
from extender.replay.logs import Log, open_log
from extender.replay.moments import Moment, MomentError, parse
from extender.replay.stepping import Stepper
from extender.settings import SettingsError

_UNUSABLE = (
    AlgorithmError,
    InputError,
    MomentError,
    OutputError,
    RecordingError,
    SettingsError,
    UnknownPodError,
    OSError,
)


class Which(NamedTuple):
    """Which recording is replayed: the log, the run of the server (None: the latest, or that of the moment), and
    whether a log of format 1 is replayed by a program with other constants; and MiB that a replay may hold."""

    path: Path
    run: int | None = None
    anyway: bool = False
    memory_mib: int = MOST_MIB

    def open(self, *, wall: float | None = None) -> Log:
        """Open it, and warn if this program may decide differently. Raises RecordingError and OSError."""
        return warned(open_log(self.path, run=self.run, anyway=self.anyway, wall=wall, most_mib=self.memory_mib))


class Look(NamedTuple):
    """What is shown of a moment. `pod` "": the whole cluster. `port` None: nothing is served."""

    pod: str = ""
    json: bool = False
    port: int | None = None


@contextmanager
def refusing() -> Iterator[None]:
    """End the command if something cannot be used, or after Ctrl-C."""
    try:
        with stopped_by_ctrl_c():
            yield
    except _UNUSABLE as error:
        raise refuse(error) from error


def warned(log: Log) -> Log:
    """Return the log. Warns on standard error if this program may decide differently from the one that recorded."""
    if found := log.doubts:
        remark(
            f"constants of this program differ from the recorded ones: {'; '.join(found)}. `waggle replay` without "
            "options says whether all decisions are the same",
            title="warning",
            style="yellow",
        )
    return log


def look_at(which: Which, moment: str, wanted: Look) -> None:
    """Show the cluster, or a pod, as it was at that moment; with a port, serve the pages of it."""
    with refusing():
        with prints_on_stderr():
            frozen = _frozen(which, moment, usage=wanted.port is not None)
            text = _text(frozen, wanted) if wanted.port is None else ""
        if wanted.port is not None:
            serve_pages(frozen, wanted.port, lambda url: _announce(frozen, url))
        elif wanted.json:
            say_json(text)
        else:
            say(text)


def _text(frozen: Frozen, wanted: Look) -> str:
    if wanted.pod:
        namespace, _, name = wanted.pod.rpartition("/")
        key = (namespace or "default", name)
        return as_json(explained(frozen, *key)) if wanted.json else explanation_text(frozen, *key)
    return as_json(pages(frozen)) if wanted.json else look_text(frozen)


def _announce(frozen: Frozen, url: str) -> None:
    say(f"{url}/ui shows {frozen.text}, read-only. Ctrl-C ends it.")


def _frozen(which: Which, moment: str, *, usage: bool) -> Frozen:
    wanted = parse(moment)
    return _at(which.open(wall=wanted.wall), wanted, usage=usage)


def _at(log: Log, moment: Moment, *, usage: bool = False) -> Frozen:
    """Freeze the log at that moment. An error says which run has no such moment, if there are others."""
    try:
        return freeze(log, moment, usage=usage)
    except MomentError as error:
        if log.runs == 1:
            raise
        raise MomentError(f"{log.name}: {error}. --run N takes another one") from error


def step_through(which: Which, moment: str) -> None:
    """Obey commands of standard input; begin at that moment, or at the beginning of the log."""
    with refusing():
        wanted = parse(moment) if moment else None
        log = which.open(wall=wanted.wall if wanted else None)
        stepper = Stepper(log, _at(log, wanted).number if wanted is not None else 0)
        session = Session(stepper, say)
        if sys.stdin.isatty():
            say(f"{log.name}, algorithm {log.header.algorithm}.\n{HELP}")
        session.run(_commands(stepper))


def _commands(stepper: Stepper) -> Iterator[str]:
    """The lines of standard input, with a prompt if it is a terminal."""
    is_terminal = sys.stdin.isatty()
    while True:
        if is_terminal:
            say(f"#{stepper.number}> ", nl=False)
        line = sys.stdin.readline()
        if not line:
            return
        yield line
