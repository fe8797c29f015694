"""Checkpoints of simulations: a run that was interrupted in any way continues from its last one.

    {"waggle_simulation": 4, "inputs": {...}, ...}            the head: of which workload and options it is
    {"run": {...}}, {"jobs": [...]}, {"stays": [...]}         runs that are over, in pieces
    {"done": [[7, {...}], ...]}, {"left": [...]}              of the run in progress: jobs and stays that are over
    {"objects": [...], "kinds": [...]}                        its state (`extender.recording.graph`), many lines
    {"end": "..."}                                            the SHA-256 digest of all lines before

The state is all that later decisions depend on, random numbers included. So the results are those of a run that was
never interrupted, byte for byte. A file is replaced as a whole: it is the complete new one, or still the old one. The
digest finds every change of a file, and nothing may follow it: a state that was changed could decide anything, or fail
anywhere. Another program (a release, an algorithm that was changed) would decide otherwise from there on: the head has
digests of its sources, and such a file is refused.

Reading is safe: it runs no code from the file (`extender.recording.graph`).
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from algorithm.registry import available
from extender.lab.comparing import Progress, release
from extender.lab.program import digests
from extender.lab.results import JobResult, Run, Stay
from extender.lab.run.simulation import Ended, RunOptions, Simulation
from extender.lab.workload import Workload
from extender.recording.checkpoint import WITHOUT
from extender.recording.files import named_in_errors
from extender.recording.graph.kinds import GraphError, Kinds
from extender.recording.graph.reading import decode
from extender.recording.graph.writing import encode
from extender.recording.lines import Lines
from extender.recording.records import RecordingError

FORMAT = 4
_PACKAGES = (
    "algorithm",
    "extender.core",
    "extender.scheduling",
    "extender.embedded.kubescheduler",
    "extender.plan",
    "extender.lab",
)
#: Parts of them that no state has: they read and write files, or start processes.
_WITHOUT = (
    *WITHOUT,
    *(f"extender.plan.{name}" for name in ("files", "reading.documents", "reading.snapshots")),
    *(
        f"extender.lab.{name}"
        for name in ("checkpoints", "fgd_study", "importers", "report", "studies", "tables", "workload_file")
    ),
)
#: Jobs of one line.
_PIECE = 5000
_END = b'{"end":'


class CheckpointError(ValueError):
    """A checkpoint cannot be used. The message names the file, and says why."""


class Head(msgspec.Struct, frozen=True):
    """The first line. `inputs` are digests of the trace, the nodes, and the options of all runs (one of all before
    format 4), `program` those of the sources that decide, by package."""

    waggle_simulation: int
    inputs: dict[str, str] | str
    release: str = ""
    program: dict[str, str] = {}
    #: The time in the run that was in progress; None: none was.
    moment: float | None = None


class _Part(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    run: Run | None = None
    jobs: tuple[JobResult, ...] = ()
    done: tuple[tuple[int, JobResult], ...] = ()
    stays: tuple[Stay, ...] = ()
    left: tuple[Stay, ...] = ()


def digests_of(workload: Workload, runs: Sequence[RunOptions]) -> dict[str, str]:
    """Return what tells inputs apart: for each of them what another one is called, and its digest."""
    return {
        "another trace": _digest([workload.name, workload.remarks], workload.jobs),
        "other nodes": _digest([workload.nodes, workload.failures, workload.changes]),
        "other options": _digest(list(runs)),
    }


def _digest(first: object, others: Iterable[object] = ()) -> str:
    found = hashlib.sha256(msgspec.json.encode(first, order="deterministic"))
    for each in others:
        found.update(msgspec.json.encode(each, order="deterministic"))
    return found.hexdigest()


def kinds_of(runs: Iterable[RunOptions]) -> Kinds:
    """Return which classes a checkpoint may name: ours, and those of the plug-ins that are run."""
    return Kinds(_packages_of(runs), without=_WITHOUT)


def _packages_of(runs: Iterable[RunOptions]) -> tuple[str, ...]:
    points = available()
    own = {points[run.algorithm].module.partition(".")[0] for run in runs if run.algorithm in points}
    return (*_PACKAGES, *sorted(own - {"algorithm", "extender"}))


# -- writing -------------------------------------------------------------------------------------------------------


class Keeper:
    """Writes checkpoints of the runs of one comparison to one file."""

    def __init__(self, path: Path, workload: Workload, runs: Sequence[RunOptions]) -> None:
        self.path = path
        self._kinds = kinds_of(runs)
        self._inputs, self._program = digests_of(workload, runs), digests(_packages_of(runs))
        _tidy(path)

    def keep(self, progress: Progress) -> None:
        """Write a checkpoint. Raises OSError, CheckpointError."""
        moment = None if progress.current is None else progress.current.moment
        _write(self.path, progress, Head(FORMAT, self._inputs, release(), self._program, moment), self._kinds)


def _tidy(path: Path) -> None:
    """Delete what processes that were killed have left of a checkpoint that they were writing."""
    begin = f".{path.name}."
    for each in path.parent.iterdir():
        number = each.name.removeprefix(begin)
        if each.name.startswith(begin) and number.isdecimal() and not _runs(int(number)):
            each.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    if process == os.getpid():  # of a process before this one: in a container all have the same number
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it runs, and is somebody else's
        pass
    return True


def _write(path: Path, progress: Progress, head: Head, kinds: Kinds) -> None:
    """Replace the file by a checkpoint. Raises OSError, CheckpointError if the algorithm has what cannot be written."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with named_in_errors(path), gzip.GzipFile(partial, "wb", compresslevel=1, mtime=0) as file:
            digested = hashlib.sha256()
            for line in _lines(progress, head, kinds):
                digested.update(line + b"\n")
                file.write(line + b"\n")
            file.write(_end(digested) + b"\n")
        partial.replace(path)
    except GraphError as error:
        raise CheckpointError(f"{path}: this run cannot have checkpoints: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _lines(progress: Progress, head: Head, kinds: Kinds) -> Iterator[bytes]:
    yield msgspec.json.encode(head)
    for run in progress.finished:
        yield _encoded(run=msgspec.structs.replace(run, jobs=(), stays=()))
        yield from (_encoded(jobs=piece) for piece in _pieces(run.jobs))
        yield from (_encoded(stays=piece) for piece in _pieces(run.stays))
    if progress.current is not None:
        with progress.current.as_state() as ended:
            yield from (_encoded(done=piece) for piece in _pieces(tuple(ended.done.items())))
            yield from (_encoded(left=piece) for piece in _pieces(tuple(ended.stays)))
            for line in encode(progress.current, kinds):
                yield line.text


def _end(digested: hashlib._Hash) -> bytes:
    return _END + b'"' + digested.hexdigest().encode() + b'"}'


def _encoded(**fields: Any) -> bytes:
    return msgspec.json.encode(_Part(**fields))


def _pieces(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for at in range(0, len(values), _PIECE):
        yield values[at : at + _PIECE]


# -- reading -------------------------------------------------------------------------------------------------------


def read(path: Path, workload: Workload, runs: Sequence[RunOptions]) -> Progress:
    """Return how far the runs were. Raises OSError, and CheckpointError also if it is one of other inputs."""
    try:
        with Lines(path) as lines:
            head = next(lines, b"")
            _check(path, head, digests_of(workload, runs), digests(_packages_of(runs)))
            return _progress(path, _whole(path, head, lines), workload, kinds_of(runs))
    except RecordingError as error:
        raise CheckpointError(str(error)) from error
    except GraphError as error:
        raise CheckpointError(f"{path}: the checkpoint cannot be used: {error}") from error


def _check(path: Path, text: bytes, inputs: dict[str, str], program: dict[str, str]) -> None:
    try:
        head = msgspec.json.decode(text, type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a checkpoint of a simulation: {error}") from error
    if head.waggle_simulation != FORMAT:
        raise CheckpointError(f"{path}: a checkpoint of format {head.waggle_simulation}, this Waggle reads {FORMAT}")
    of = head.inputs if isinstance(head.inputs, dict) else {}
    if others := [other for other, found in inputs.items() if of.get(other) != found]:
        raise CheckpointError(f"{path}: the checkpoint is of {' and '.join(others)}")
    if head.release != release():
        raise CheckpointError(
            f"{path}: the checkpoint was written by Waggle {head.release or 'of no release'}, and this is "
            f"{release() or 'of no release'}: it may decide otherwise, so the runs have to begin again"
        )
    if head.program != program:
        changed = sorted(name for name in head.program.keys() | program if head.program.get(name) != program.get(name))
        raise CheckpointError(
            f"{path}: the sources of {', '.join(changed)} have changed since the checkpoint was written: they may"
            " decide otherwise, so the runs have to begin again"
        )


def _whole(path: Path, head: bytes, lines: Lines) -> Iterator[bytes]:
    """The lines between the head and the end. Raises CheckpointError at the end, if the digest is not theirs."""
    digested = hashlib.sha256(head + b"\n")
    for text in lines:
        if text.startswith(_END):
            if text != _end(digested) or next(lines, None) is not None:
                raise CheckpointError(f"{path}: the checkpoint was changed: its lines have another digest than its end")
            if lines.cut_off or lines.goes_on:
                raise CheckpointError(f"{path}: the checkpoint was changed: something follows its end")
            return
        digested.update(text + b"\n")
        yield text
    raise CheckpointError(f"{path}: the checkpoint is not complete{': ' + lines.cut_off if lines.cut_off else ''}")


def _progress(path: Path, lines: Iterator[bytes], workload: Workload, kinds: Kinds) -> Progress:
    finished: list[Run] = []
    ended = Ended({}, [])
    graph: list[bytes] = []
    for text in lines:
        if text.startswith(b'{"objects":'):
            graph.append(text)
        else:
            _take(path, text, finished, ended)
    if not graph:
        return Progress(finished)
    simulation = decode(graph, kinds)
    if not isinstance(simulation, Simulation):
        raise CheckpointError(f"{path}: expected a simulation in the checkpoint, got a {type(simulation).__name__}")
    simulation.complete(workload, ended)
    return Progress(finished, simulation)


def _take(path: Path, text: bytes, finished: list[Run], ended: Ended) -> None:
    try:
        part = msgspec.json.decode(text, type=_Part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: no part of a checkpoint: {error}") from error
    if part.run is not None:
        finished.append(part.run)
    elif part.jobs or part.stays:
        if not finished:
            raise CheckpointError(f"{path}: no checkpoint of a simulation: jobs of no run")
        last = finished[-1]
        finished[-1] = msgspec.structs.replace(last, jobs=last.jobs + part.jobs, stays=last.stays + part.stays)
    ended.done.update(part.done)
    ended.stays.extend(part.left)
