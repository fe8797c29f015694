"""Checkpoints: the state of the engine after one event, from which a replay can continue.

    {"waggle_checkpoint": 2, "recording": "...", "number": 1000, "at": 12.5, ...}     the head
    {"objects": [...], "kinds": [...]}                                                the state (`graph.py`), many lines
    {"objects": 5123}                                                                 its end: how many objects

A replay from it gives the same instructions, byte for byte, as one from the first event.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from algorithm.registry import AlgorithmError, available, create
from extender.logs.printable import printable
from extender.recording.graph.kinds import GraphError, Kinds, TooLargeError
from extender.recording.graph.reading import decode
from extender.recording.graph.writing import encode
from extender.recording.held import MOST_MIB
from extender.recording.lines import Lines, reopened
from extender.recording.records import FORMAT, Header, RecordingError, policy_of
from extender.scheduling.machine import SchedulerStateMachine

_PACKAGES = ("algorithm", "extender.core", "extender.scheduling")
#: Modules of them that no state has: they load plug-ins and start processes.
WITHOUT = ("algorithm.conformance", "algorithm.plugins", "algorithm.registry", "algorithm.placements.registry")


class CheckpointHead(msgspec.Struct, frozen=True):
    """The first line of a checkpoint: its recording, and the event after which it was taken, with that event's time."""

    waggle_checkpoint: int
    recording: str
    number: int
    at: float
    algorithm: str
    release: str = ""
    #: Where it was read; not written.
    path: str = ""


class _End(msgspec.Struct, forbid_unknown_fields=True):
    objects: int


def kinds_of(algorithm: str) -> Kinds:
    """What a checkpoint of an engine with this algorithm may name: the engine, our algorithms, and the plug-in's own
    package."""
    point = available().get(algorithm)
    own = () if point is None else (point.module.partition(".")[0],)
    others = (each for each in own if each not in ("extender", "algorithm"))
    return Kinds((*_PACKAGES, *others), without=WITHOUT)


def encode_checkpoint(
    engine: SchedulerStateMachine, head: CheckpointHead, *, secrets: Container[str] = frozenset()
) -> Iterator[bytes]:
    """Yield the lines of the engine's state. Nobody may use the engine until then. Raises GraphError."""
    yield msgspec.json.encode(msgspec.structs.replace(head, path="")) + b"\n"
    objects = 0
    for line in encode(engine, kinds_of(head.algorithm), secrets=secrets):
        objects += line.objects
        yield line.text + b"\n"
    yield msgspec.json.encode(_End(objects)) + b"\n"


def read_head(path: Path) -> CheckpointHead:
    """Return the head of a checkpoint. Raises RecordingError or OSError."""
    with Lines(path) as lines:
        return _head(lines, next(lines, b""))


def _head(lines: Lines, text: bytes) -> CheckpointHead:
    try:
        head = msgspec.json.decode(text, type=CheckpointHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise lines.wrong(f"no head of a checkpoint: {error}") from error
    if head.waggle_checkpoint != FORMAT:
        raise lines.wrong(f"a checkpoint of format {head.waggle_checkpoint}, this Waggle reads format {FORMAT}")
    return msgspec.structs.replace(head, path=lines.name)


def skip(lines: Lines) -> None:
    """Skip the checkpoint with which the file begins."""
    next(lines, None)
    for _ in state_lines(lines):
        pass


def state_lines(lines: Lines) -> Iterator[bytes]:
    """Yield the lines of the state, after those of the head. Raises RecordingError if its end is missing."""
    for text in lines:
        if _is_end(text):
            return
        yield text
    raise lines.wrong(f"the checkpoint is not complete{': ' + lines.cut_off if lines.cut_off else ''}")


def _is_end(text: bytes) -> bool:
    if not text.startswith(b'{"objects":') or text.startswith(b'{"objects":['):
        return False
    try:
        msgspec.json.decode(text, type=_End)
    except msgspec.DecodeError:
        return False
    return True


class Start(NamedTuple):
    """Where a replay can begin: at the first event (`head` None), or at a checkpoint."""

    header: Header
    head: CheckpointHead | None
    #: MiB that the state of the checkpoint may take.
    most_mib: int = MOST_MIB
    #: The file that begins so, for messages.
    name: str = "log"

    @property
    def number(self) -> int:
        """The number of the last event before it; 0: none."""
        return self.head.number if self.head is not None else 0

    def engine(self) -> SchedulerStateMachine:
        """Return a new engine as it was then. Raises RecordingError, also if this program cannot make it."""
        if self.head is not None:
            return read_checkpoint(Path(self.head.path), self.head.algorithm, self.most_mib)
        try:
            algorithm = create(self.header.algorithm, self.header.settings)
        except AlgorithmError as error:
            raise RecordingError(f"{self.name}:1: {printable(str(error), 1000)}") from error
        return SchedulerStateMachine(algorithm, policy_of(self.header), epoch=self.header.epoch)


def read_checkpoint(path: Path, algorithm: str, most_mib: int = MOST_MIB) -> SchedulerStateMachine:
    """Return the engine of a checkpoint, which may take so many MiB. Raises RecordingError or OSError."""
    with reopened(path) as lines:
        head = _head(lines, next(lines, b""))
        return engine_of(state_lines(lines), msgspec.structs.replace(head, algorithm=algorithm), most_mib)


def engine_of(lines: Iterable[bytes], head: CheckpointHead, most_mib: int | None = None) -> SchedulerStateMachine:
    """Return the engine of a state, which may take so many MiB; the end of it may be there or not.

    Raises RecordingError.
    """
    try:
        engine = decode((line for line in lines if not _is_end(line)), kinds_of(head.algorithm), most_mib=most_mib)
    except TooLargeError as error:
        raise RecordingError(
            f"{head.path}: the state of the checkpoint cannot be used: {error}; --memory-mib N allows more, if the log "
            "is to be trusted"
        ) from error
    except GraphError as error:
        by = f", written by release {head.release}" if head.release else ""
        raise RecordingError(f"{head.path}: the checkpoint{by} cannot be used: {error}") from error
    if not isinstance(engine, SchedulerStateMachine):
        raise RecordingError(f"{head.path}: the checkpoint has no engine in it, but a {type(engine).__name__}")
    return engine
