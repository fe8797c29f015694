"""Makes checkpoints of a running engine: copies it in pieces under its lock, then writes the copy without the lock.

    want() --> [wanted] --step--> [copying] --step ...--> [writing] --step ...--> done: a new file, complete
                  ^                  |  the engine is busy, is copied by somebody else,
                  +------------------+  or changed settings are being prepared: later

Each step takes some milliseconds, so that the recorder's thread does not fall behind meanwhile. A copy lacks algorithms
that are just being prepared (`Preparations`), so none is made then.

An algorithm that cannot be copied, or whose state cannot be written, gets no checkpoints: `impossible` says why. Nor is
there another one after one for which the folder has no room.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from extender.core.said import said_by
from extender.recording.checkpoint import CheckpointHead, encode_checkpoint
from extender.recording.files import CompressedFile
from extender.recording.graph.kinds import GraphError
from extender.recording.masks import Masks
from extender.recording.records import FORMAT, Header
from extender.scheduling.driver import AlgorithmFault, CopyFault
from extender.scheduling.fork import Forking
from extender.scheduling.machine import SchedulerStateMachine

log = structlog.get_logger(__name__)

#: Seconds of one step; until a copy is tried again; after which a preparation of settings counts as given up.
_STEP, _AGAIN, _GIVEN_UP = 0.01, 5.0, 600.0
#: Part of the time for which copies may hold the engine's lock.
_LOCK_SHARE = 100
#: Characters of why no checkpoint can be made.
_LONGEST_TEXT = 1000


class CopyBusy(Exception):  # noqa: N818 - what happened
    """The engine cannot be copied now."""


class _TooLargeError(Exception):
    """The folder has no room for the checkpoint."""


@dataclass(frozen=True)
class Source:
    """Where checkpoints come from. `in_turns` makes each piece under the engine's lock, and raises CopyBusy if that is
    held for too long. `copying` is a lock: hold it while you copy the engine or its algorithm."""

    engine: SchedulerStateMachine
    in_turns: Callable[[Iterator[bool]], Iterator[bool]]
    copying: threading.Lock


class Checkpointer:
    """Used by one thread; numbers may be read by others."""

    def __init__(self, source: Source, header: Header, masks: Masks) -> None:
        self._source, self._header, self._masks = source, header, masks
        #: How many were made, the bytes of the last one, and for how long a piece held the lock at most, seconds.
        self.made, self.last_bytes, self.longest_hold = 0, 0, 0.0
        #: Why none can be made; "" if they can.
        self.impossible = ""
        self._wanted: Path | None = None
        self._has_room: Callable[[int], bool] = lambda _size: True
        self._make_room: Callable[[OSError], bool] = lambda _error: False
        self._work: Generator[Path | None, None, None] | None = None
        self._not_before = 0.0
        self._held = 0.0
        self._pending_since = 0.0
        self._is_pending = False
        #: Why the last one could not be written; "" if it could.
        self._fault = ""

    @property
    def warning(self) -> str:
        """Why a checkpoint that is wanted is not there; "" if nothing is wrong."""
        return f"a checkpoint cannot be written, and is tried again: {self._fault}" if self._fault else ""

    @property
    def is_making(self) -> bool:
        return self._work is not None

    @property
    def is_wanted(self) -> bool:
        """Whether one is to be made, now or later."""
        return self._wanted is not None

    def want(self, path: Path, has_room: Callable[[int], bool], make_room: Callable[[OSError], bool]) -> None:
        """Make a checkpoint at this path as soon as possible, if one can be made. `has_room`: whether so many bytes of
        it may be on the disk; it is asked while it grows. `make_room` is called after an error of the disk."""
        if not self.impossible:
            self._wanted, self._has_room, self._make_room = path, has_room, make_room

    def step(self) -> Path | None:
        """Do some of the work; returns the path of a checkpoint that is complete."""
        if self._work is None and (self._wanted is None or time.monotonic() < self._not_before):
            return None
        if self._work is None and self._wanted is not None:
            self._work = self._make(self._wanted)
        try:
            return self._some()
        except CopyBusy:
            self._later(after=_AGAIN)
        except (NotImplementedError, GraphError, _TooLargeError) as error:
            self._give_up(str(error))
        except OSError as error:
            self._complain(str(error))
            self._later(after=0.0 if self._make_room(error) else _AGAIN)
        except AlgorithmFault as fault:  # it is noted, and the watchdog logs it
            self._give_up(f"the algorithm cannot be copied: {fault}")
        except BaseException as error:  # of a plug-in's state, which may call sys.exit(): the recording goes on
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            log.exception("making a checkpoint failed")
            self._give_up(said_by(error, _LONGEST_TEXT))
        return None

    def abandon(self) -> None:
        """Stop what is under way."""
        work, self._work = self._work, None
        if work is not None:
            work.close()

    def _some(self) -> Path | None:
        until = time.monotonic() + _STEP
        while self._work is not None and time.monotonic() < until:
            done = next(self._work, None)
            if done is not None:
                self._work = self._wanted = None
                self._fault = ""
                self.made += 1
                return done
        return None

    def _later(self, *, after: float) -> None:
        self.abandon()
        self._not_before = time.monotonic() + max(after, self._held * _LOCK_SHARE)

    def _give_up(self, why: str) -> None:
        self.abandon()
        self._wanted, self.impossible, self._fault = None, why, ""
        log.warning("no checkpoints can be made, so the recording ends when it is as large as it may be", why=why)

    def _complain(self, why: str) -> None:
        if not self._fault:
            log.error("a checkpoint cannot be written, and is tried again", why=why)
        self._fault = why

    def _make(self, path: Path) -> Generator[Path | None, None, None]:
        twin = yield from self._copy()
        head = CheckpointHead(
            FORMAT, self._header.recording, twin.sequence, twin.driver.now, self._header.algorithm, self._header.release
        )
        file = CompressedFile(path, complete=True)
        try:
            for line in encode_checkpoint(twin, head, secrets=self._masks.texts):
                file.write(line)
                self._check_room(file.bytes)
                yield None
            file.finish()
        except BaseException:
            file.abandon()
            raise
        self.last_bytes = file.bytes
        self._not_before = time.monotonic() + self._held * _LOCK_SHARE
        yield path

    def _check_room(self, size: int) -> None:
        if not self._has_room(size):
            raise _TooLargeError(f"one takes more than {size} bytes, for which the folder has no room")

    def _copy(self) -> Generator[None, None, SchedulerStateMachine]:
        """Yield after each piece, and return the copy."""
        if not self._source.copying.acquire(blocking=False):
            raise CopyBusy
        try:
            with Forking(self._source.engine) as forking:
                self._held = 0.0
                for _ in self._source.in_turns(self._timed(forking)):
                    yield
                self._check_preparations()
                return self._result(forking)
        finally:
            self._source.copying.release()

    def _result(self, forking: Forking) -> SchedulerStateMachine:
        try:
            return forking.result()
        except CopyFault as fault:
            failed = fault

        def noting() -> Iterator[bool]:
            self._source.engine.driver.note(failed)
            yield True

        for _ in self._source.in_turns(noting()):
            pass
        raise AlgorithmFault(str(failed))

    def _timed(self, forking: Forking) -> Iterator[bool]:
        """The pieces. Runs under the engine's lock."""
        began, was_complete = time.perf_counter(), False
        for is_complete in forking.pieces():
            if is_complete and not was_complete:
                was_complete, self._is_pending = True, self._source.engine.preparations.has_any
            took = time.perf_counter() - began
            self._held += took
            self.longest_hold = max(self.longest_hold, took)
            yield is_complete
            began = time.perf_counter()

    def _check_preparations(self) -> None:
        if not self._is_pending:
            self._pending_since = 0.0
            return
        self._pending_since = self._pending_since or time.monotonic()
        if time.monotonic() - self._pending_since < _GIVEN_UP:
            raise CopyBusy


def why_missing(made: Checkpointer | None) -> str:
    """Return why a full folder has nothing that may be deleted."""
    if made is not None and made.impossible:
        return f"no checkpoints can be made ({made.impossible}), so what was recorded first cannot be deleted"
    if made is not None and made.last_bytes:
        return f"what a replay needs takes more: checkpoints of {made.last_bytes} bytes"
    return "no checkpoint is there yet, so what was recorded first cannot be deleted"
