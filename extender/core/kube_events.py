"""Writes Kubernetes Events on objects, which show people what happened. For every engine.

    nothing written yet --> POST --> done            the Event exists
                             |   --> 409             it exists: an earlier attempt succeeded unanswered --> PATCH
    written before -------> PATCH --> done           its count and time are higher
                             |   --> 404             it is older than an hour --> POST, with the count so far

core/v1 and not events.k8s.io/v1: both end in the same store and in `kubectl describe`; this one needs no further API
group in RBAC and has the plain `count` that describe shows. `core/event_series.py` decides which Events are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from extender.core.commands import Moment
from extender.core.event_series import Correlator, Happening, Series
from extender.core.outcomes import OutcomeKind
from extender.core.requests import Request, collection_path, object_path, patch_request, post_request

#: Our name in Events.
COMPONENT = "waggle"

CREATED, COUNTED, SUPPRESSED = "events created", "events counted", "events suppressed"

_LONGEST_NOTE = 1024


class Recorded(Happening, Protocol):
    """Something that happened to an object, and is to be shown there."""

    @property
    def about(self) -> Mapping[str, str]:
        """The object: the fields of an Event's `involvedObject`."""
        ...

    @property
    def warning(self) -> bool: ...


E = TypeVar("E", bound=Recorded)


class Events(Generic[E]):
    """Keeps the series of each object's Events. `command`: the engine's command that has an Event written."""

    def __init__(self, command: type[E]) -> None:
        self._command = command
        self.counts: Counter[str] = Counter({CREATED: 0, COUNTED: 0, SUPPRESSED: 0})
        self._correlator: Correlator[E] = Correlator()

    @property
    def command(self) -> type[E]:
        return self._command

    def topic(self, event: E) -> tuple[str, ...]:
        return event.uid, event.namespace, event.name, event.code, event.text

    def requests(self, event: E, times: int, moment: Moment) -> Generator[Request, OutcomeKind, None]:
        """The requests of the module's diagram; none if the object has had too many Events."""
        series = self._correlator.observe(event, times, moment)
        self.counts[SUPPRESSED] = self._correlator.suppressed
        if series is None:
            return
        ended = yield from (self._count if series.written else self._create)(series, moment)
        if ended is OutcomeKind.THROTTLED:
            self._correlator.give_back(event)

    def _create(self, series: Series[E], moment: Moment) -> Generator[Request, OutcomeKind, OutcomeKind]:
        ended = yield new_event(series, instance=moment.sender)
        if ended is OutcomeKind.LOST:
            ended = yield count_event(series)
        if ended is not OutcomeKind.THROTTLED:
            series.written = ended is OutcomeKind.DONE
            self.counts[CREATED] += series.written
        return ended

    def _count(self, series: Series[E], moment: Moment) -> Generator[Request, OutcomeKind, OutcomeKind]:
        ended = yield count_event(series)
        if ended is OutcomeKind.GONE:
            return (yield from self._create(series, moment))
        self.counts[COUNTED] += ended is OutcomeKind.DONE
        return ended


def new_event(series: Series[Any], *, instance: str) -> Request:
    """Build the Event: what happened to which object, and when it did so first."""
    event = series.event
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": event.namespace},
        "involvedObject": dict(event.about),
        "reason": event.code,
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance,
        "firstTimestamp": timestamp(series.first),
        **_lately(series),
    }
    return post_request(_events_path(event), body)


def count_event(series: Series[Any]) -> Request:
    """Update the Event: how often it happened so far, and the time and text of the last occurrence."""
    return patch_request(object_path(_events_path(series.event), series.name), _lately(series))


def _lately(series: Series[Any]) -> dict[str, Any]:
    return {"count": series.count, "lastTimestamp": timestamp(series.last), "message": shorten(series.text)}


def timestamp(moment: Moment) -> str:
    """RFC 3339 in whole seconds, as metav1.Time is."""
    return moment.time[: len("2026-11-02T10:00:00")] + "Z"


def shorten(text: str) -> str:
    """Cut a text to 1,024 characters, the limit of the API server."""
    return text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 4] + " ..."


def _events_path(event: Recorded) -> str:
    return collection_path("events", namespace=event.namespace)
