"""Records all events of the engine, and its answers, in a folder of bounded size.

    engine's loop --> heard(event), said(answer) --> queue, bounded --> thread waggle-recorder --> segments, checkpoints
     under its lock      a reference to immutable data each               encodes, compresses, writes, deletes

The engine has no clock and no randomness of its own, so a replay gives the same instructions as the server gave.

Promises. A decision never waits for the recorder: if the queue is full (a slow disk), events are left out, which is
counted and reported, and the log says which are missing. Everything but the last second can be read after a crash. The
folder stays below `most_bytes`: the oldest segments are deleted, and the rest can be replayed, since every new segment
gets a checkpoint (`checkpoint.py`), unless little has happened since the last one. If no checkpoint can be made (a
plug-in that cannot be copied), the first segment is kept, and the recording ends when the folder is full, with one line
in the server's log. If the disk is full before the folder is, the oldest segments are deleted, too (`disk.py`).

A recording contains the name, labels and stored annotations of every pod, so only its owner can read it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from algorithm.registry import settings_model
from extender.core.said import said_by
from extender.recording.checkpointer import Checkpointer, Source, why_missing
from extender.recording.disk import Disk
from extender.recording.encoding import LineWriter, header_of
from extender.recording.files import CHECKPOINT, LOG, CompressedFile, OwnFolder, name_of
from extender.recording.masks import Masks
from extender.recording.records import Gap, Header
from extender.recording.retention import Retention
from extender.recording.status import Status
from extender.recording.waiting import Entry, Waiting
from extender.scheduling.events import Event
from extender.scheduling.policy import Policy

log = structlog.get_logger(__name__)

#: Bytes on disk of one recording, by default; and the least that makes sense.
MOST_BYTES, LEAST_BYTES = 512 << 20, 1 << 20
#: A segment ends after so many bytes (a part of all), uncompressed bytes, or seconds.
_SEGMENTS, _LONGEST_SEGMENT, _MOST_PLAIN, _SEGMENT_SECONDS = 16, 32 << 20, 512 << 20, 3600.0
#: A segment that is only old goes on while it has less than this.
_LEAST_OF_OLD = 64 << 10
#: Events are gathered for so long; what was written is flushed after so long, seconds: together the last second. Each
#: time the thread runs, it may be interrupted while the event loop waits for it, so it runs seldom.
_GATHER, _FLUSH = 0.25, 0.75
#: Between two pieces of a checkpoint.
_REST = 0.05
#: An event without an answer is written without it after so long, seconds: the engine may hang.
_PATIENCE = 0.5
#: Characters of the text of an exception.
_LONGEST_TEXT = 1000
#: Seconds that a server that stops waits for the disk. Kubernetes kills it after 30.
_MOST_TO_CLOSE = 15.0
#: Files whose first event is remembered, to say which one has an event.
_MOST_BEGUN = 1000


class Recorder:
    """Records into a folder, in its own thread. `heard` and `said` are called under the engine's lock, one after the
    other; `close` waits until everything is written, 15 seconds at most.

    Raises OSError if the folder cannot be written, belongs to another user, or is used by another server.
    """

    def __init__(
        self,
        folder: Path,
        algorithm: str,
        settings: Mapping[str, Any],
        policy: Policy,
        *,
        most_bytes: int = MOST_BYTES,
        epoch: float | None = None,
        masks: Masks | None = None,
        release: str = "",
    ) -> None:
        self._folder = OwnFolder(folder)
        self._masks = masks or Masks()
        #: The engine's clock plus this is seconds since 1970.
        self.epoch = epoch
        kept = self._masks.settings(settings, settings_model(algorithm))
        name = secrets.token_hex(8)
        self._header = header_of(algorithm, kept, policy, recording=name, release=release, epoch=epoch)
        self._most_bytes = max(most_bytes, LEAST_BYTES)
        self._segment_bytes = min(self._most_bytes // _SEGMENTS, _LONGEST_SEGMENT)
        self._retention = Retention(self._folder, self._most_bytes)
        self._disk = Disk(self._retention)
        self._waiting = Waiting()
        #: Called under the engine's lock: an event, before it is handled, and the engine's answer, or how it failed.
        self.heard, self.said, self.failed = self._waiting.heard, self._waiting.said, self._waiting.failed
        self._lost = self._events = 0
        self._closing = threading.Event()
        self._cpu = 0.0
        #: What the thread works on.
        self._file: CompressedFile | None = None
        self._lines = LineWriter(self._masks)
        #: The first event and the name of the last files.
        self._begun: deque[tuple[int, str]] = deque(maxlen=_MOST_BEGUN)
        self._segments, self._number, self._began, self._flushed = 0, self._folder.next_number(), 0.0, 0.0
        #: The last event that was written, or was tried, and the last one that can be read, whatever happens.
        self._written = self._safe = 0
        #: The bytes since the last point where a replay can begin.
        self._since_start = 0
        #: The event that has no answer yet, and since when it is known, seconds.
        self._seen: tuple[int, float] = (0, 0.0)
        #: Whether the last line is an event without its answer. The answer belongs into the same segment.
        self._is_unanswered = False
        #: Why events are missing before the next one, and why the recording has ended.
        self._missing = self._ended = ""
        self._checkpointer: Checkpointer | None = None
        try:
            self._begin_first()
        except OSError:
            self._folder.close()
            raise
        self._thread = threading.Thread(target=self._run, name="waggle-recorder", daemon=True)
        self._thread.start()

    def attach(self, source: Source) -> None:
        """Say where checkpoints come from. Without it none are made, and the first segment is kept."""
        self._checkpointer = Checkpointer(source, self._header, self._masks)

    # -- for others -----------------------------------------------------------------------------------------------

    def file_of(self, number: int) -> str:
        """Return the name of the file that has the event of this number, "" if it is not known any more. Any thread.

        Of an event that waits to be written, it is the file that is written now.
        """
        return next((name for first, name in reversed(tuple(self._begun)) if first <= number), "")

    @property
    def status(self) -> Status:
        """What metrics and probes show. Any thread."""
        made, file = self._checkpointer, self._file
        return Status(
            events=self._events,
            lost=self._lost + self._waiting.lost,
            queued=len(self._waiting),
            bytes=self._retention.bytes + (file.bytes if file is not None else 0),
            segments=self._segments,
            checkpoints=made.made if made is not None else 0,
            cpu=self._cpu,
            longest_hold=made.longest_hold if made is not None else 0.0,
            warning=self._warning(),
        )

    def _warning(self) -> str:
        if self._ended:
            return f"the recording has ended: {self._ended}"
        if self._disk.fault:
            return f"events are not recorded: {self._disk.fault}"
        if self._waiting.is_losing:
            return "events are not recorded: the disk is too slow"
        made = self._checkpointer
        return (made.warning if made is not None else "") or self._disk.warning

    def close(self) -> None:
        """Write what is left, and end the recording; leave that to a disk that does not answer in time. Idempotent."""
        self._closing.set()
        self._waiting.wake.set()
        self._thread.join(_MOST_TO_CLOSE)
        if self._thread.is_alive():
            log.error("recording lacks its end: the disk does not answer", seconds=_MOST_TO_CLOSE)

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._waiting.wake.wait(self._pause())
                self._closing.wait(min(_REST, _GATHER) if self._is_making else _GATHER)
                self._waiting.wake.clear()
                self._waiting.is_awake = False
                self._turn()
            self._drain(is_last=True)
            self._end(self._ended)
        except OSError as error:
            self._fail(error, is_last=True)
        except BaseException:  # Python ends a thread silently at SystemExit
            self._ended = "an internal error, see the log"
            log.exception("recording has ended")
        finally:
            if self._checkpointer is not None:
                self._checkpointer.abandon()
            self._folder.close()

    def _pause(self) -> float | None:
        """For how long there is nothing to do, seconds; None: until the next event."""
        made, file = self._checkpointer, self._file
        if self._is_making:
            return 0.0
        is_idle = not self._waiting and (file is None or file.is_flushed) and (made is None or not made.is_wanted)
        return None if is_idle else _FLUSH

    @property
    def _is_making(self) -> bool:
        return self._checkpointer is not None and self._checkpointer.is_making

    def _turn(self) -> None:
        try:
            self._drain()
            self._after()
            self._checkpoint()
        except OSError as error:
            self._fail(error)
        self._cpu = time.thread_time()

    def _drain(self, *, is_last: bool = False) -> None:
        while (entry := self._waiting.first()) is not None:
            if entry.said is None and len(self._waiting) == 1 and not is_last:
                self._write_unanswered(entry)
                return
            self._write(entry)
            self._waiting.take()

    def _write_unanswered(self, entry: Entry) -> None:
        """Write an event for whose answer the engine takes long; the answer is written when it is there."""
        if self._seen[0] != entry.number:
            self._seen = entry.number, time.monotonic()
        if not entry.is_written and time.monotonic() - self._seen[1] > _PATIENCE:
            self._write(entry)
            entry.is_written = True

    def _write(self, entry: Entry) -> None:
        if isinstance(entry.event, Gap):
            self._missing = entry.event.why
        elif entry.is_written and not self._is_unanswered:
            return  # a fault of the disk has ended the segment that has the event: it stays without an answer
        elif entry.number <= self._written and not entry.is_written:
            return  # a fault of the disk came while or after it was written: it is there, or counted as lost
        elif self._can_write(entry.number):
            self._put_lines(entry, entry.event)

    def _can_write(self, number: int) -> bool:
        """Whether there is a segment for the event of this number. Begins one after a gap."""
        if self._ended or self._disk.is_waiting:
            self._lost += 1
            return False
        if self._missing:
            self._give_up_checkpoint()
            self._begin_segment(number)
            if self._disk.fault:
                log.warning("recording goes on", first=number, lost=self.status.lost)
            self._disk.fault = ""
        return True

    def _put_lines(self, entry: Entry, event: Event) -> None:
        assert self._file is not None
        try:
            if entry.is_written:
                line = self._lines.answer(entry.number, entry.said) if entry.said is not None else b""
            else:
                line = self._lines.event(entry.number, entry.at, event, entry.said)
        except BaseException as error:  # of what an algorithm put into its answer
            log.exception("an event cannot be recorded", number=entry.number, kind=type(event).__name__)
            self._missing = f"event {entry.number} cannot be written: {said_by(error, _LONGEST_TEXT)}"
            self._lost += 1
            self._is_unanswered = False
            return
        self._written = entry.number
        self._events += not entry.is_written
        self._file.write(line)
        self._is_unanswered = entry.said is None
        if self._file.bytes >= self._segment_bytes or self._file.plain_bytes >= _MOST_PLAIN:
            self._next_segment()

    # -- segments -------------------------------------------------------------------------------------------------

    def _begin_first(self) -> None:
        try:
            self._begin_segment(1)
        except OSError as error:
            if not self._make_room(error):
                raise
            self._begin_segment(1)

    def _begin_segment(self, first: int) -> None:
        """End the segment that is written, if there is one, and begin another one. Raises OSError."""
        self._finish()
        self._folder.renew()
        number = self._folder.next_number()
        file, lines = CompressedFile(self._folder.path / name_of(number, LOG)), LineWriter(self._masks)
        try:
            file.write(lines.header(self._header_from(first)))
            file.flush()
        except OSError:
            file.abandon(delete=True)  # a folder with files that have no header would be full of them, and not be read
            raise
        self._file, self._lines, self._number = file, lines, number
        self._segments += 1
        self._began = self._flushed = time.monotonic()
        self._begun.append((first, file.path.name))
        self._written = self._safe = first - 1
        if self._missing or self._since_start >= max(self._segment_bytes, 2 * self._bytes_of_checkpoint):
            self._want_checkpoint()
        self._missing = ""

    def _header_from(self, first: int) -> Header:
        masked = tuple(sorted(self._masks.masked))
        return msgspec.structs.replace(
            self._header, segment=self._segments + 1, first=first, gap=self._missing, masked=masked
        )

    def _finish(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.finish()
            self._safe = self._written
        finally:
            self._since_start += file.bytes
            self._retention.add(self._number, file.path, file.bytes, is_start=self._segments == 1)

    def _after(self) -> None:
        """Flush, and end a segment that is large or old. Raises OSError."""
        file, now = self._file, time.monotonic()
        if file is None:
            return
        if now - self._flushed >= _FLUSH:
            file.flush()
            file.check()
            self._flushed, self._safe = now, self._written
        is_old = now - self._began > _SEGMENT_SECONDS and file.bytes > _LEAST_OF_OLD
        if is_old or file.bytes >= self._segment_bytes:
            self._next_segment()

    def _next_segment(self) -> None:
        """Begin the next segment, or leave that to a later event while the last one has no answer. Raises OSError."""
        if self._is_unanswered:
            return
        self._begin_segment(self._written + 1)
        self._tidy()
        self._checkpoint()

    def _tidy(self) -> None:
        """Delete what is too old. A fifth of the room is for what is written until the next checkpoint is made."""
        if self._retention.tidy(self._room + self._most_bytes // 5, self._number):
            return
        self._want_checkpoint()
        if self._retention.bytes + self._room > self._most_bytes:
            self._end(f"{self._most_bytes >> 20} MiB are full, and {why_missing(self._checkpointer)}")

    @property
    def _room(self) -> int:
        """Bytes that are written until there is a complete checkpoint of a new segment."""
        return 2 * self._segment_bytes + self._bytes_of_checkpoint

    def _make_room(self, error: OSError) -> bool:
        """Delete old segments if the disk is full; whether there were any."""
        return self._disk.make_room(error, self._room, self._number)

    def _end(self, why: str = "") -> None:
        """End the recording: the server ends, or `why`."""
        file = self._file
        if file is not None:
            file.write(self._lines.end(self._written, why))
            self._finish()
        if why and not self._ended:
            self._ended = why
            log.warning("recording has ended", why=why)

    def _fail(self, error: OSError, *, is_last: bool = False) -> None:
        """Leave events out until the disk works again. `is_last`: the server ends, and nothing follows."""
        if self._file is not None:
            self._retention.add(self._number, self._file.path, self._file.bytes, is_start=self._segments == 1)
            self._file.abandon()
            self._file = None
        self._is_unanswered = False
        self._retention.forget_deleted()
        self._disk.fail(error, has_room=not is_last and self._make_room(error))
        self._count_unsafe()
        self._missing = f"they could not be written: {error}"

    def _count_unsafe(self) -> None:
        """Events that were written, but not flushed, are lost, too."""
        unsafe, self._safe = self._written - self._safe, self._written
        self._lost += unsafe
        self._events -= unsafe

    # -- checkpoints ----------------------------------------------------------------------------------------------

    @property
    def _bytes_of_checkpoint(self) -> int:
        return self._checkpointer.last_bytes if self._checkpointer is not None else 0

    def _want_checkpoint(self) -> None:
        if self._checkpointer is not None and not self._is_making:
            path = self._folder.path / name_of(self._number, CHECKPOINT)
            self._checkpointer.want(path, self._has_room, self._make_room)
            self._waiting.wake.set()

    def _has_room(self, size: int) -> bool:
        """Whether a checkpoint may have so many bytes; deletes what is too old."""
        return self._retention.tidy(size + 2 * self._segment_bytes, self._number)

    def _give_up_checkpoint(self) -> None:
        """Stop one that is being made: it would be from before a gap."""
        if self._checkpointer is not None:
            self._checkpointer.abandon()

    def _checkpoint(self) -> None:
        if self._checkpointer is None or self._ended or self._file is None:
            return
        path = self._checkpointer.step()
        if path is not None:
            self._since_start = 0
            self._retention.add(int(path.name[:6]), path, self._bytes_of_checkpoint, is_start=True)
            self._tidy()
