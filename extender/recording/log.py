"""Logs as they are read: a folder of segments, one segment, a cut, or a file of format 1.

    log = open_log(path)              the recordings in it, one for each run of a server, oldest first
    recording = log.recordings[-1]
    recording.header, recording.starts    the engine's algorithm and policy; where a replay can begin
    for item in recording.steps(): ...    Step or Gap, in order

Opening reads the header of each segment. Everything else is read when it is asked for, line by line.

The last segment of a recording may be cut off: the server was killed, or still runs. `Recording.remarks` says so once
it was read. Everywhere else a missing, damaged or foreign part is a RecordingError, with file and line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from extender.recording import encoding
from extender.recording.checkpoint import CheckpointHead, Start, read_head, skip
from extender.recording.encoding import Answer, End, LineReader
from extender.recording.files import CHECKPOINT, LOG, files_in
from extender.recording.held import MOST_MIB
from extender.recording.lines import GZIP, Lines, deleted, reopened
from extender.recording.records import Gap, Header, RecordingError, Step

#: Segments that are looked at: a folder has some dozens.
MOST_SEGMENTS = 20_000
#: How often a folder is looked at from which somebody deletes files meanwhile.
_LOOKS = 5
#: Bytes of a file that may have a part of a header and nothing else: in a folder its name says that it is a segment,
#: and a machine that fails leaves any part of it.
_MOST_BEGUN, _SHORTEST = 1 << 20, 64
_CHECKPOINT_BEGINS = b'{"waggle_checkpoint":'


@dataclass(frozen=True)
class Segment:
    """One file of events. `joined`: it begins with a checkpoint, and its header follows."""

    path: Path
    header: Header
    joined: CheckpointHead | None = None


@dataclass
class Recording:
    """The events of one run of a server, as far as they are still there."""

    segments: tuple[Segment, ...]
    #: Where a replay can begin, by number. Never empty if a replay is possible at all.
    starts: tuple[Start, ...]
    #: What its reader should know; complete once `steps` has come to its end.
    remarks: list[str] = field(default_factory=list)
    #: MiB that a replay of it may hold (`held.py`).
    most_mib: int = MOST_MIB
    #: The number of the last event of a run that has ended as it should; None: it was killed, or still runs.
    ended: int | None = None

    @property
    def header(self) -> Header:
        """The header of its first segment; the settings are those at the start of the run."""
        return self.segments[0].header

    @property
    def name(self) -> str:
        """Where it is, for messages."""
        first, last = self.segments[0].path, self.segments[-1].path
        return str(first) if first == last else f"{first} to {last.name}"

    def wall(self, at: float) -> float | None:
        """The time of a step in seconds since 1970; None if that was not recorded (format 1)."""
        return None if self.header.epoch is None else self.header.epoch + at

    def steps(self, after: int = 0) -> Iterator[Step | Gap]:
        """Yield what happened after the event of this number. Raises RecordingError.

        Segments that end before are not read.
        """
        self.remarks.clear()
        last, first = max(after, self.header.first - 1), 0
        for index, segment in enumerate(self.segments):
            if segment.header.first > after + 1:
                break
            first = index
        for index, segment in enumerate(self.segments[first:], start=first):
            following = self.segments[index + 1] if index + 1 < len(self.segments) else None
            for step in self._of_segment(segment, following):
                if step.number == 0 or step.number > last:
                    yield step
                    last = step.number or last + 1
            if following is not None and following.header.first != last + 1:
                if not following.header.gap or following.header.first <= last:
                    raise RecordingError(_missing(segment, following, last))
                yield Gap(last + 1, following.header.first - 1, following.header.gap)
                last = following.header.first - 1

    def _of_segment(self, segment: Segment, following: Segment | None) -> Iterator[Step]:
        reader = _SegmentReader(segment)
        yield from reader
        if following is None:
            self.ended = None if reader.why else reader.ended
            if reader.cut_off or (reader.ended is None and segment.header.waggle > 1):
                end = "(the server was killed, or still runs)"
                self.remarks.append(f"{segment.path}: it was cut off after event {reader.last} {end}")
            elif reader.why:
                went_on = f"the recording ended after event {reader.last}, and the server went on: {reader.why}"
                self.remarks.append(f"{segment.path}: {went_on}")
        elif reader.cut_off and not following.header.gap:
            raise RecordingError(f"{segment.path}: it was cut off after event {reader.last}, and others follow")


def _missing(segment: Segment, following: Segment, last: int) -> str:
    first = following.header.first
    if first <= last:
        return f"{following.path}:1: begins with event {first}, but {segment.path.name} has event {last} already"
    return f"{following.path}:1: begins with event {first}, but {segment.path.name} ends with {last}: some are missing"


def events_of(segment: Segment) -> Iterator[bytes]:
    """Yield the lines of a segment after its header, as they are. Raises RecordingError and OSError."""
    with Lines(segment.path) as lines:
        if segment.joined is not None:
            skip(lines)
        next(lines, None)
        yield from lines


class _SegmentReader:
    """The steps of one segment, each with its answer."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.last = segment.header.first - 1
        self.cut_off = ""
        self.ended: int | None = None
        #: Why the recording ended before the server; "" if it did not.
        self.why = ""

    def __iter__(self) -> Iterator[Step]:
        with reopened(self._segment.path) as lines:
            if self._segment.joined is not None:
                skip(lines)
            next(lines)
            reader, is_first = LineReader(), self._segment.header.waggle == 1
            held: Step | None = None
            for text in lines:
                item = self._read(reader, lines, text, is_early=is_first)
                if isinstance(item, Answer):
                    if held is None or held.number != item.number or held.said is not None:
                        raise lines.wrong(f"an answer to event {item.number}, which does not wait for one")
                    held = held._replace(said=item.said)
                    continue
                if held is not None:
                    yield held
                held = item if isinstance(item, Step) else None
            if held is not None:
                yield held
            self.cut_off = lines.cut_off

    def _read(self, reader: LineReader, lines: Lines, text: bytes, *, is_early: bool) -> Step | Answer | End:
        if self.ended is not None:
            raise lines.wrong("something follows the end of the recording")
        try:
            item = reader.read(text)
        except RecordingError as error:
            raise lines.wrong(str(error)) from error
        if isinstance(item, Step):
            if item.number != self.last + 1 and not (is_early and item.number == 0):
                why = "some are missing" if item.number > self.last else "it is there already, or out of order"
                raise lines.wrong(f"expected event {self.last + 1}, not {item.number}: {why}")
            self.last += 1
        elif isinstance(item, End):
            if item.number != self.last:
                raise lines.wrong(f"the end after event {item.number}, but the last one is {self.last}")
            self.ended, self.why = item.number, item.why
        return item


@dataclass(frozen=True)
class Log:
    """What was opened. There is at least one recording."""

    path: Path
    recordings: tuple[Recording, ...]

    def hold(self, most_mib: int) -> Log:
        """Let a replay of each recording hold so many MiB, and as many of the state with which it begins; returns the
        log."""
        for recording in self.recordings:
            recording.most_mib = most_mib
            recording.starts = tuple(each._replace(most_mib=most_mib) for each in recording.starts)
        return self

    def run(self, number: int | None) -> Recording:
        """Return a run of the server: the latest, or that of this number, the oldest being 1. Raises RecordingError."""
        if number is None:
            return self.recordings[-1]
        runs = len(self.recordings)
        if not 0 < number <= runs:
            has = "1 run" if runs == 1 else f"{runs} runs"
            raise RecordingError(f"{self.path}: has {has} of a server; there is no run {number}")
        return self.recordings[number - 1]


def open_log(path: Path) -> Log:
    """Open a folder, a segment, a cut, or a file of format 1. Raises RecordingError or OSError.

    A server that records deletes the oldest files of its folder. If it does meanwhile, the folder is looked at again.
    """
    for _ in range(_LOOKS - 1):
        with contextlib.suppress(FileNotFoundError):
            return _opened(path)
    try:
        return _opened(path)
    except FileNotFoundError as error:
        if not path.is_dir() or error.filename is None:
            raise
        raise deleted(error.filename) from error


def _opened(path: Path) -> Log:
    if path.is_dir():
        found = files_in(path)
        segments = [each.path for each in found if each.kind == LOG]
        if not segments:
            raise RecordingError(f"{path}: no recording; expected files like 000001.{LOG}.gz")
        segments = [each for each in segments if each.stat().st_size]  # the disk may have been full
        checkpoints = [each.path for each in found if each.kind == CHECKPOINT]
    else:
        segments = [path]
        beside = path.with_name(path.name.replace(f".{LOG}.", f".{CHECKPOINT}."))
        checkpoints = [beside] if beside != path and beside.is_file() else []
    if len(segments) > MOST_SEGMENTS:
        raise RecordingError(f"{path}: {len(segments)} segments, expected at most {MOST_SEGMENTS}")
    most_begun = _MOST_BEGUN if path.is_dir() else _SHORTEST
    opened = [each for each in (_open_segment(segment, most_begun) for segment in segments) if each is not None]
    if not opened:
        raise RecordingError(f"{path}: nothing is recorded in it yet")
    starts = [read_head(each) for each in checkpoints]
    return Log(path, tuple(_recording(list(group), starts) for _, group in groupby(opened, key=_run)))


def _run(segment: Segment) -> str:
    return segment.header.recording


def _open_segment(path: Path, most_begun: int) -> Segment | None:
    """The segment; None if the server was killed before it had written the header. Such a file has less than
    `most_begun` bytes."""
    with Lines(path) as lines:
        text = next(lines, None)
        joined = None
        if text is not None and text.startswith(_CHECKPOINT_BEGINS):
            joined = read_head(path)
            lines.close()
            with Lines(path) as again:
                skip(again)
                text = next(again, None)
                return Segment(path, encoding.decode_header(text or b"", f"{path}:{again.number}"), joined)
        if text is None and lines.cut_off and path.stat().st_size < most_begun and _may_be_begun(path):
            return None
        return Segment(path, encoding.decode_header(text or b"", str(path)), joined)


def _may_be_begun(path: Path) -> bool:
    """Whether a short file may be a recording of which nothing is written yet but the beginning of the file."""
    with path.open("rb") as file:
        begin = file.read(2)
    return begin == GZIP[: len(begin)] or begin[:1] == b"{" or not begin.strip(b"\0")


def _recording(segments: list[Segment], checkpoints: list[CheckpointHead]) -> Recording:
    header = segments[0].header
    numbers = [segment.header.segment for segment in segments]
    for before, after, segment in zip(numbers, numbers[1:], segments[1:], strict=False):
        if after <= before or (after > before + 1 and not segment.header.gap):
            raise RecordingError(
                f"{segment.path}:1: is segment {after} of its recording, but follows segment {before}: "
                "a file is missing, or has another name"
            )
    heads = [each for each in checkpoints if each.recording == header.recording and each.number >= header.first - 1]
    heads += [segment.joined for segment in segments if segment.joined is not None]
    starts = [Start(header, head) for head in sorted(heads, key=lambda each: each.number)]
    if header.first == 1:
        starts.insert(0, Start(header, None, name=str(segments[0].path)))
    return Recording(tuple(segments), tuple(starts))
