"""The pods with a scheduling gate at one moment of a recording. Neither the engine nor a checkpoint has them.

They are read from the events of the log up to that moment, without the engine: those before the checkpoint at which the
replay begins, too. A pod that was last seen before the first event that is left, or before events that cannot be read,
is not known; `HeldBack.unknown` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from algorithm.model import Pod, PodKey
from extender.recording.encoding import LineReader
from extender.recording.held import Held
from extender.recording.log import Segment, events_of
from extender.recording.records import RecordingError, Step
from extender.replay.logs import Log
from extender.scheduling.events import PodGone, PodSeen
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.views import Explanation, HeldBack, PodView

_GATED = "It has a scheduling gate: kube-scheduler does not try it until the gate is removed."


class _Known(NamedTuple):
    """Gated pods, and since when, seconds of the log's clock. `first`: the first of the events that were read."""

    pods: dict[PodKey, tuple[Pod, float]]
    first: int


class Gated:
    """The gated pods of `log` where `machine` is in it. Reads the log when it is asked, once for each place."""

    def __init__(self, log: Log, machine: SchedulerStateMachine) -> None:
        self._log, self._machine = log, machine
        self._known = _Known({}, 0)
        self._number = -1

    def all(self, now: float) -> HeldBack:
        """Return why each of them is held back, by namespace and name. Raises RecordingError and OSError."""
        known = self._read()
        manages = self._machine.policy.manages
        found = (self._explained(*known.pods[key], now) for key in sorted(known.pods) if manages(known.pods[key][0]))
        return HeldBack(tuple(found), unknown_text(known.first))

    def _read(self) -> _Known:
        if self._number != self._machine.sequence:
            self._number = self._machine.sequence
            self._known = _gated(self._log, self._number)
        return self._known

    def _explained(self, pod: Pod, since: float, now: float) -> Explanation:
        said = self._machine.dependencies.judged.get(pod.uid)
        why = said.reason if said is not None else None
        summary = why.text if why is not None else _GATED
        view = PodView(
            *pod.key, pod.uid, "Waiting", reason=why, since_seconds=now - since, priority=pod.priority, summary=summary
        )
        return Explanation(pod=view, reason=why)


def unknown_text(first: int) -> str:
    """Return what to say if the first event that could be read is this one; "" if it is the very first."""
    if first <= 1:
        return ""
    return (
        f"Pods with a scheduling gate that were last seen before event {first} are not known: the log does not have "
        "the events before it."
    )


def _gated(log: Log, number: int) -> _Known:
    """Return the gated pods after the event of this number. Raises RecordingError if they are too many, and OSError."""
    known, last = _Known({}, log.header.first), log.header.first - 1
    held = Held(str(log.path), log.recording.most_mib)
    for segment in log.recording.segments:
        if segment.header.first > number:
            break
        if segment.header.first != last + 1:
            known = _Known({}, segment.header.first)
        reading = _PodEvents(segment, number)
        for step in reading:
            _take_in(step, known.pods, held)
        last = reading.last
    return known


class _PodEvents:
    """The events about pods in a segment, up to that of number `most`, as far as they can be read.

    `last` is the number of the last event of any kind: where a part cannot be read, the next segment does not follow.
    """

    def __init__(self, segment: Segment, most: int) -> None:
        self._segment, self._most = segment, most
        self.last = segment.header.first - 1

    def __iter__(self) -> Iterator[Step]:
        reader = LineReader()
        with suppress(RecordingError, msgspec.DecodeError, UnicodeDecodeError):
            for text in events_of(self._segment):
                kind = _heads.decode(text).event
                if not kind:
                    continue
                if self.last == self._most:
                    return
                step = reader.read(text) if kind in _ABOUT_PODS else None
                self.last += 1
                if isinstance(step, Step):
                    yield step


def _take_in(step: Step, pods: dict[PodKey, tuple[Pod, float]], held: Held) -> None:
    event = step.event
    if isinstance(event, PodSeen) and event.pod.gated and not event.pod.finished:
        held.take(step)
        known = pods.get(event.pod.key)
        pods[event.pod.key] = event.pod, known[1] if known is not None and known[0].uid == event.pod.uid else step.at
        return
    key = event.pod.key if isinstance(event, PodSeen) else event.key if isinstance(event, PodGone) else None
    gone = pods.pop(key, None) if key is not None else None
    if gone is not None:
        held.take(step._replace(event=PodGone(*gone[0].key, gone[0].uid)))


class _Head(msgspec.Struct):
    """What is read of every line."""

    event: str = ""


_heads = msgspec.json.Decoder(_Head)
_ABOUT_PODS = (PodSeen.__name__, PodGone.__name__)
