"""Cuts a part of a recording into one file that replays by itself, because it begins with a checkpoint.

    | earlier events: replayed | from here on: copied | later events |
                               ^ the engine is as it was then: the checkpoint

The checkpoint is exact only if this program decides like the one that recorded, so a divergence before the cut is an
error. While changed settings are being prepared there is no checkpoint, and the cut begins a little earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from extender.recording.checkpoint import CheckpointHead, encode_checkpoint
from extender.recording.encoding import LineWriter, fields_of_records
from extender.recording.files import NewFile
from extender.recording.log import Recording
from extender.recording.records import FORMAT, Gap, RecordingError, Step
from extender.recording.replaying import Replay, start_before
from extender.scheduling.machine import SchedulerStateMachine


class Cut(NamedTuple):
    """What was written. `checkpoint`: the event after which the state at its beginning was taken; 0 if it has none."""

    first: int
    last: int
    checkpoint: int
    bytes: int


def cut(recording: Recording, is_before: Callable[[Step], bool], is_after: Callable[[Step], bool], out: Path) -> Cut:
    """Write the events of the part between `is_before` and `is_after`. Nothing is written after an error.

    Raises RecordingError, also if events of the part are missing, or OSError.
    """
    first, last = _wanted(recording, is_before, is_after)
    engine, number = _engine_before(recording, first)
    file = NewFile(out)
    try:
        if engine is not None:
            for line in encode_checkpoint(engine, _head(recording, engine)):
                file.write(line)
        for line in _lines(recording, number, last):
            file.write(line)
        file.finish()
    except BaseException:
        file.abandon()
        raise
    return Cut(number + 1, last, number, file.bytes)


def _wanted(
    recording: Recording, is_before: Callable[[Step], bool], is_after: Callable[[Step], bool]
) -> tuple[int, int]:
    first = last = 0
    for step in _steps(recording):
        if isinstance(step, Gap):
            if first:
                raise RecordingError(f"{recording.name}: events {step.first} to {step.last} are missing: {step.why}")
            continue
        if is_after(step):
            break
        if not is_before(step):
            first, last = first or step.number, step.number
    if not first:
        raise RecordingError(f"{recording.name}: there is no event between these moments")
    return first, last


def _steps(recording: Recording) -> Iterator[Step | Gap]:
    """The steps, each with its number (early recordings have none)."""
    number = recording.header.first - 1
    for item in recording.steps():
        if isinstance(item, Gap):
            number = item.last
            yield item
        else:
            number += 1
            yield item if item.number else item._replace(number=number)


def _engine_before(recording: Recording, first: int) -> tuple[SchedulerStateMachine | None, int]:
    """The engine just before this event, or a little earlier; and the number of the last event before it."""
    if first == 1:
        return None, 0
    wanted = first - 1
    while True:
        engine, safe = _replayed(recording, wanted)
        if engine is not None or safe == 0:
            return engine, safe
        wanted = safe


def _replayed(recording: Recording, wanted: int) -> tuple[SchedulerStateMachine | None, int]:
    """The engine after this event; or None, and the last event before it after which nothing was being prepared."""
    start = start_before(recording, number=wanted)
    replay, safe = Replay(recording, start=start), start.number
    if wanted == start.number:
        return replay.engine, wanted
    for number, played in enumerate(replay, start=start.number + 1):
        number = played.step.number or number
        if played.divergence is not None:
            raise RecordingError(
                f"{recording.name}: this program decides differently at event {number}, before the cut, so it does not "
                "know the engine's state there: cut with the release that recorded it"
            )
        is_pending = replay.engine.preparations.has_any
        if number == wanted:
            return (None, safe) if is_pending else (replay.engine, wanted)
        if not is_pending:
            safe = number
    raise RecordingError(f"{recording.name}: event {wanted} is missing, so the state after it is not known")


def _head(recording: Recording, engine: SchedulerStateMachine) -> CheckpointHead:
    header = recording.header
    name, release = header.recording or "cut", header.release
    return CheckpointHead(FORMAT, name, engine.sequence, engine.driver.now, header.algorithm, release)


def _lines(recording: Recording, before: int, last: int) -> Iterator[bytes]:
    writer, header = LineWriter(), recording.header
    yield writer.header(
        msgspec.structs.replace(
            header,
            waggle=FORMAT,
            recording=header.recording or "cut",
            segment=1,
            first=before + 1,
            gap="",
            fields=header.fields or fields_of_records(),
        )
    )
    for step in _steps(recording):
        if isinstance(step, Step) and before < step.number <= last:
            yield writer.recorded(step)
        if isinstance(step, Step) and step.number >= last:
            break
    yield writer.end(last)
