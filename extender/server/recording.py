"""The recorder of the engine of pods as a part of the server: made, attached to the loop, shown in metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from extender import DISTRIBUTION
from extender.recording.checkpointer import CopyBusy, Source
from extender.recording.recorder import MOST_BYTES, Recorder
from extender.scheduling.events import Event, Instruction
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from extender.server.loop import EngineLoop, LoopBusy
from extender.server.views import Metric

#: Seconds that a piece of a copy waits for the engine's lock.
_PATIENCE = 1.0


class RecordTo(NamedTuple):
    """Where to record, and how many bytes the folder may have."""

    folder: Path
    most_bytes: int = MOST_BYTES


def recorder_to(to: RecordTo, algorithm: str, settings: Mapping[str, Any], policy: Policy) -> Recorder:
    """Return a recorder that has begun. Raises OSError, which names the folder, if it cannot be used."""
    return Recorder(
        to.folder,
        algorithm,
        settings,
        policy,
        most_bytes=to.most_bytes,
        epoch=time.time() - time.monotonic(),
        release=version(DISTRIBUTION),
    )


def attach(recorder: Recorder, machine: SchedulerStateMachine, loop: EngineLoop[Event, Instruction]) -> None:
    """Let checkpoints be made of this engine."""

    def in_turns(pieces: Iterator[bool]) -> Iterator[bool]:
        try:
            yield from loop.in_turns(pieces, patience=_PATIENCE)
        except LoopBusy as error:
            raise CopyBusy from error

    recorder.attach(Source(machine, in_turns, loop.copying))


def recording_metrics(recorder: Recorder) -> list[Metric]:
    status = recorder.status
    return [
        Metric("waggle_recording_events_total", "counter", "Events that were recorded.", [({}, float(status.events))]),
        Metric(
            "waggle_recording_lost_events_total",
            "counter",
            "Events that are not in the recording, since the disk was too slow, full or broken.",
            [({}, float(status.lost))],
        ),
        Metric("waggle_recording_queued", "gauge", "Events that wait to be recorded.", [({}, float(status.queued))]),
        Metric("waggle_recording_bytes", "gauge", "Size of the recording's folder.", [({}, float(status.bytes))]),
        Metric(
            "waggle_recording_checkpoints_total",
            "counter",
            "Copies of the engine's state that were written, from which a replay can begin.",
            [({}, float(status.checkpoints))],
        ),
        Metric(
            "waggle_recording_cpu_seconds_total",
            "counter",
            "CPU time of the thread that records.",
            [({}, status.cpu)],
        ),
        Metric(
            "waggle_recording_hold_seconds",
            "gauge",
            "The longest time for which a copy for a checkpoint has held the engine's lock at once.",
            [({}, status.longest_hold)],
        ),
    ]
