"""Decides which Kubernetes Events to write of things that happen again and again. Sans-I/O.

    the first time         --> a new Event, count 1
    the same again         --> its count and time change: "5s (x5 over 3m)" in kubectl describe
    many texts, one code   --> one Event for all further ones, with the latest text
    too often, one object  --> nothing is written, but counted: the next Event that is written says how often

The rules and their numbers are those of client-go's recorder (tools/record: cache of 4,096, 25 Events in one go and one
every five minutes for each object, ten similar texts), so operators find what they know. Memory is bounded: the least
recently used object is forgotten, and its next Event starts anew.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from extender.core.commands import Moment

_MOST_OBJECTS = 4096
#: Events of one object that are written in one burst, and seconds until there may be another.
_BURST, _REFILL = 25, 300.0
#: Different texts for one code; further ones are combined.
_MOST_TEXTS = 10
_LONGEST_NAME = 253
_COMBINED = "(combined from similar events): "


class Happening(Protocol):
    """What happened to one object."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def code(self) -> str:
        """One word, the Event's `reason`."""
        ...

    @property
    def text(self) -> str: ...


H = TypeVar("H", bound=Happening)


@dataclass(slots=True)
class Series(Generic[H]):
    """One Event object: its text, and how often it happened."""

    event: H
    text: str
    #: Name of the Event object.
    name: str
    first: Moment
    last: Moment
    count: int = 0
    #: Whether the API server has the object, as far as we know.
    written: bool = False


@dataclass(slots=True)
class _Object(Generic[H]):
    tokens: float
    filled: float
    series: dict[tuple[str, str], Series[H]] = field(default_factory=dict)


class Correlator(Generic[H]):
    """Remembers which Events were written for each object."""

    def __init__(self) -> None:
        self._objects: OrderedDict[str, _Object[H]] = OrderedDict()
        self._serial = 0
        #: How often something happened for which no Event was written.
        self.suppressed = 0

    def observe(self, event: H, times: int, moment: Moment) -> Series[H] | None:
        """Count that it happened `times` more often. Returns the Event to write, or None if the object has had too
        many."""
        about = self._object(event, moment.now)
        series = self._series(about, event, moment)
        series.event, series.last = event, moment
        series.count += times
        if about.tokens < 1:
            self.suppressed += times
            return None
        about.tokens -= 1
        return series

    def give_back(self, event: H) -> None:
        """Give the object its token back: the Event was not written, and will be tried again."""
        about = self._objects.get(_key(event))
        if about is not None:
            about.tokens += 1

    def _object(self, event: H, now: float) -> _Object[H]:
        key = _key(event)
        about = self._objects.setdefault(key, _Object(_BURST, now))
        self._objects.move_to_end(key)
        if len(self._objects) > _MOST_OBJECTS:
            self._objects.popitem(last=False)
        about.tokens = min(_BURST, about.tokens + (now - about.filled) / _REFILL)
        about.filled = now
        return about

    def _series(self, about: _Object[H], event: H, moment: Moment) -> Series[H]:
        code, text = event.code, event.text
        key = (code, text)
        if key not in about.series and sum(known == code for known, _ in about.series) >= _MOST_TEXTS:
            key, text = (code, ""), _COMBINED + text
        series = about.series.get(key)
        if series is None:
            self._serial += 1
            name = event_name(event.name, moment, self._serial)
            series = about.series[key] = Series(event, text, name, moment, moment)
        series.text = text
        return series


def _key(event: Happening) -> str:
    return event.uid or f"{event.namespace}/{event.name}"


def event_name(name: str, moment: Moment, serial: int) -> str:
    """The object's name and a unique suffix, cut to the length that names may have."""
    suffix = f".{int(moment.epoch * 1_000_000):x}{serial % 0x1000:03x}"
    return name[: _LONGEST_NAME - len(suffix)].rstrip(".-") + suffix
