"""Records all events of the engine in a log, from which every decision can be replayed, byte for byte.

The log has one JSON object a line: first a header with the algorithm and the policy, then each event with its time:

    {"waggle": 1, "algorithm": "packing", "settings": {...}, "policy": {...}, "constants": {...}}
    {"number": 1, "at": 12.5, "event": "FilterRequested", "data": {"pod": {...}, "nodes": ["a", "b"]}}

The engine has no clock and no randomness of its own, so `replay` of such a log gives the same instructions as the
server gave, also by a program in which the engine's limits have changed: the policy has them. A program with other
`constants` (those of an algorithm, for example) may decide otherwise: `replay` says which they are, and refuses.

A separate thread encodes the events: under the engine's lock, only a reference to immutable data is queued.

A recording contains the name, labels and stored annotations of every pod, so only its owner can read the file, from the
moment it exists.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import structlog

from algorithm.interface import SchedulerAlgorithm, SuggestedNodes
from algorithm.registry import create
from extender.scheduling import events
from extender.scheduling.events import Event, Instruction, PrepareAlgorithm
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Limits, Policy
from extender.server.constants import Constant, constants, differences

log = structlog.get_logger(__name__)

VERSION = 1
#: Fields of the policy by their names in older recordings.
_RENAMED = {"protection": "eviction_backoff"}
_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in events.Event.__args__}


class RecordingError(ValueError):
    """The log cannot be read; the message names the file, the line and the cause."""


class Header(msgspec.Struct, frozen=True):
    """The first line of a log: its format, the algorithm with its settings, the policy, and the program's constants."""

    waggle: int
    algorithm: str
    settings: dict[str, Any]
    policy: dict[str, Any]
    constants: dict[str, Constant] = {}


class Step(NamedTuple):
    """One event, the time when it was handled, in seconds of the server's clock, and its number.

    The first event has number 1, and is also called by it in the log and in the histories of pods. 0: not recorded.
    """

    at: float
    event: Event
    number: int = 0


class _Line(msgspec.Struct):
    at: float
    event: str
    data: msgspec.Raw
    number: int = 0


def encode_instructions(instructions: list[Instruction]) -> bytes:
    """Return instructions as bytes, for comparison: each with its kind, fields in order."""
    return msgspec.json.encode([[type(item).__name__, item] for item in instructions], enc_hook=_encode_hook)


class Recorder:
    """Writes a new log file. Pass it as the runtime's `record`; `close` waits until everything is written.

    An existing file of the same user is replaced. Raises OSError if the file cannot be written, belongs to another
    user, or is not a regular file.
    """

    def __init__(self, path: Path, algorithm: str, settings: Mapping[str, Any], policy: Policy) -> None:
        self._file = open_private(path)
        self._file.write(encode_header(algorithm, settings, policy))
        self._failed = False
        self._queue: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="waggle-recorder", daemon=True)
        self._thread.start()

    def __call__(self, event: Event, at: float, number: int) -> None:
        self._queue.put(Step(at, event, number))

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        with contextlib.suppress(OSError):
            self._file.close()

    def _run(self) -> None:
        while (step := self._queue.get()) is not None:
            if self._failed:
                continue  # the server goes on; the log up to here can still be replayed
            try:
                self._file.write(encode_step(step) + b"\n")
                if self._queue.empty():
                    self._file.flush()  # so that a killed server loses only its last moment
            except Exception:
                self._failed = True
                log.exception("recording has ended")


def open_private(path: Path) -> IO[bytes]:
    """Open a new file at `path` that only its owner can read and write. Raises OSError, with the file's name.

    An existing file at `path` is not opened: with a wider mode, a second hard link, or a reader that has it open,
    others could read the new content. A new file replaces it in one step, which also follows no symbolic link.
    """
    _check_replaceable(path)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    file = os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")
    try:
        new.replace(path)
    except OSError:
        file.close()
        new.unlink()
        raise
    return file


def _check_replaceable(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no regular file"
        raise OSError(errno.EEXIST, f"is {kind}; a recording is written to a file of its own", str(path))
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))


def encode_header(algorithm: str, settings: Mapping[str, Any], policy: Policy) -> bytes:
    """Return the first line of a log."""
    header = Header(VERSION, algorithm, dict(settings), asdict(policy), constants(algorithm))
    return msgspec.json.encode(header, enc_hook=_encode_hook) + b"\n"


def encode_step(step: Step) -> bytes:
    line = {"number": step.number, "at": step.at, "event": type(step.event).__name__, "data": step.event}
    return msgspec.json.encode(line, enc_hook=_encode_hook)


def read(file: IO[bytes], name: str = "log") -> tuple[Header, Iterator[Step]]:
    """Return the header, and an iterator that reads the steps. Raises RecordingError, naming the line."""
    try:
        header = msgspec.json.decode(file.readline(), type=Header)
    except msgspec.DecodeError as error:
        raise RecordingError(f"{name}:1: no header of a Waggle recording: {error}") from error
    if header.waggle != VERSION:
        raise RecordingError(f"{name}:1: recorded in format {header.waggle}, this Waggle reads format {VERSION}")
    return header, _steps(file, name)


def _steps(file: IO[bytes], name: str) -> Iterator[Step]:
    for number, text in enumerate(file, start=2):
        try:
            line = msgspec.json.decode(text, type=_Line)
            kind = _EVENTS[line.event]
            step = Step(line.at, msgspec.json.decode(line.data, type=kind, dec_hook=_decode_hook), line.number)
        except (msgspec.DecodeError, KeyError) as error:
            raise RecordingError(f"{name}:{number}: no event: {error}") from error
        if step.number not in (0, number - 1):
            raise RecordingError(f"{name}:{number}: expected event {number - 1}, not {step.number}: some are missing")
        yield step


def policy_of(header: Header) -> Policy:
    """Return the recorded policy; what it does not have is as it is by default.

    Raises RecordingError if it has a value that this Waggle does not know, or cannot read.
    """
    policy = {_RENAMED.get(name, name): value for name, value in header.policy.items()}
    unknown = [*_unknown(policy, Policy), *_unknown(policy.get("limits", {}), Limits)]
    if unknown:
        raise RecordingError(f"log:1: the policy has what this Waggle does not know: {', '.join(unknown)}")
    try:
        return msgspec.convert(policy, type=Policy)
    except msgspec.ValidationError as error:
        raise RecordingError(f"log:1: the policy cannot be read: {error}") from error


def _unknown(recorded: Mapping[str, Any], kind: type[Any]) -> list[str]:
    return sorted(recorded.keys() - {field.name for field in fields(kind)})


def replay(
    header: Header, steps: Iterator[Step], algorithm: SchedulerAlgorithm | None = None, *, anyway: bool = False
) -> Iterator[tuple[Step, list[Instruction]]]:
    """Replay the steps on a fresh engine. Yields each step with the instructions that it causes.

    Raises RecordingError if it was recorded with another policy or other constants than this program has, so that it
    would decide otherwise; `anyway` replays it with this program's constants.
    """
    policy = policy_of(header)
    machine = SchedulerStateMachine(algorithm or create(header.algorithm, header.settings), policy)
    if not anyway and (differs := differences(header.constants)):
        raise RecordingError(f"log:1: recorded by a program that decides otherwise: {'; '.join(differs)}")
    yield from replay_on(machine, steps)


def replay_on(machine: SchedulerStateMachine, steps: Iterator[Step]) -> Iterator[tuple[Step, list[Instruction]]]:
    """Replay the steps on this engine. Yields each step with the instructions that it causes."""
    for step in steps:
        instructions = machine.handle(step.event, step.at)
        for item in instructions:
            if isinstance(item, PrepareAlgorithm):
                machine.preparations.carry_out(item, create)
        yield step, instructions


def _encode_hook(value: object) -> object:
    if isinstance(value, SuggestedNodes):
        return list(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, str):
        # An algorithm's parser of its own file may return subclasses of str.
        return str(value)
    raise NotImplementedError(f"cannot record a {type(value).__name__}")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is SuggestedNodes:
        return SuggestedNodes(value)
    raise NotImplementedError(f"cannot read a {kind.__name__}")
