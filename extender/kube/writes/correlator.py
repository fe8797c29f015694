"""Decides which Kubernetes Events to write of things that happen again and again. Sans-I/O.

    the first time         --> a new Event, count 1
    the same again         --> its count and time change: "5s (x5 over 3m)" in kubectl describe
    many texts, one reason --> one Event for all further ones, with the latest text
    too often, one pod     --> nothing is written, but counted: the next Event that is written says how often

The rules and their numbers are those of client-go's recorder (tools/record: cache of 4,096, 25 Events in one go and one
every five minutes for each object, ten similar texts), so operators find what they know. Memory is bounded: the least
recently used pod is forgotten, and its next Event starts anew.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from extender.scheduling.commands import RecordEvent

_MOST_PODS = 4096
#: Events of one pod that are written in one burst, and seconds until there may be another.
_BURST, _REFILL = 25, 300.0
#: Different texts for one reason; further ones are combined.
_MOST_TEXTS = 10
_LONGEST_NAME = 253
_COMBINED = "(combined from similar events): "


@dataclass(slots=True)
class Series:
    """One Event object: its text, and how often it happened."""

    event: RecordEvent
    text: str
    #: Name of the Event object.
    name: str
    first: datetime
    last: datetime
    count: int = 0
    #: Whether the API server has the object, as far as we know.
    written: bool = False


@dataclass(slots=True)
class _Pod:
    tokens: float
    filled: float
    series: dict[tuple[str, str], Series] = field(default_factory=dict)


class Correlator:
    """Remembers which Events were written for each pod."""

    def __init__(self) -> None:
        self._pods: OrderedDict[str, _Pod] = OrderedDict()
        self._serial = 0
        #: How often something happened for which no Event was written.
        self.suppressed = 0

    def observe(self, event: RecordEvent, times: int, *, now: float, at: datetime) -> Series | None:
        """Count that it happened `times` more often. Returns the Event to write, or None if the pod has had too many.

        `now` is in seconds of a clock that never goes back, `at` the time of day, aware.
        """
        pod = self._pod(event, now)
        series = self._series(pod, event, at)
        series.event, series.last = event, at
        series.count += times
        if pod.tokens < 1:
            self.suppressed += times
            return None
        pod.tokens -= 1
        return series

    def give_back(self, event: RecordEvent) -> None:
        """Give the pod its token back: the Event was not written, and will be tried again."""
        pod = self._pods.get(_pod_key(event))
        if pod is not None:
            pod.tokens += 1

    def _pod(self, event: RecordEvent, now: float) -> _Pod:
        key = _pod_key(event)
        pod = self._pods.setdefault(key, _Pod(_BURST, now))
        self._pods.move_to_end(key)
        if len(self._pods) > _MOST_PODS:
            self._pods.popitem(last=False)
        pod.tokens = min(_BURST, pod.tokens + (now - pod.filled) / _REFILL)
        pod.filled = now
        return pod

    def _series(self, pod: _Pod, event: RecordEvent, at: datetime) -> Series:
        code, text = str(event.reason.code), event.reason.text
        key = (code, text)
        if key not in pod.series and sum(known == code for known, _ in pod.series) >= _MOST_TEXTS:
            key, text = (code, ""), _COMBINED + text
        series = pod.series.get(key)
        if series is None:
            self._serial += 1
            series = pod.series[key] = Series(event, text, event_name(event.name, at, self._serial), at, at)
        series.text = text
        return series


def _pod_key(event: RecordEvent) -> str:
    return event.uid or f"{event.namespace}/{event.name}"


def event_name(pod: str, at: datetime, serial: int) -> str:
    """The pod's name and a unique suffix, cut to the length that names may have."""
    suffix = f".{int(at.timestamp() * 1_000_000):x}{serial % 0x1000:03x}"
    return pod[: _LONGEST_NAME - len(suffix)].rstrip(".-") + suffix
