"""Writes Kubernetes Events on pods, which show people what happened.

    nothing written yet --> POST --> done            the Event exists
                             |   --> 409             it exists: an earlier attempt succeeded unanswered --> PATCH
    written before -------> PATCH --> done           its count and time are higher
                             |   --> 404             it is older than an hour --> POST, with the count so far

core/v1 and not events.k8s.io/v1: both end in the same store and in `kubectl describe`; this one needs no further API
group in RBAC and has the plain `count` that describe shows. `core/event_series.py` decides which Events are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

import msgspec

from algorithm.reasons import Reason
from extender.core.commands import Moment
from extender.core.event_series import Correlator, Series
from extender.core.outcomes import OutcomeKind
from extender.core.requests import Request, collection_path, object_path, patch_request, post_request

#: Our name in Events.
COMPONENT = "waggle"

CREATED, COUNTED, SUPPRESSED = "events created", "events counted", "events suppressed"

_LONGEST_NOTE = 1024


class RecordEvent(msgspec.Struct, frozen=True):
    """Create a Kubernetes Event on the pod, to show what happened. Not reported."""

    namespace: str
    name: str
    uid: str
    reason: Reason
    warning: bool = True
    term: int = 0

    @property
    def code(self) -> str:
        return str(self.reason.code)

    @property
    def text(self) -> str:
        return self.reason.text


class Events:
    """Keeps the series of each pod's Events."""

    command = RecordEvent

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter({CREATED: 0, COUNTED: 0, SUPPRESSED: 0})
        self._correlator: Correlator[RecordEvent] = Correlator()

    def topic(self, event: RecordEvent) -> tuple[str, ...]:
        return event.uid, event.namespace, event.name, event.code, event.text

    def requests(self, event: RecordEvent, times: int, moment: Moment) -> Generator[Request, OutcomeKind, None]:
        """The requests of the module's diagram; none if the pod has had too many Events."""
        series = self._correlator.observe(event, times, moment)
        self.counts[SUPPRESSED] = self._correlator.suppressed
        if series is None:
            return
        ended = yield from (self._count if series.written else self._create)(series, moment)
        if ended is OutcomeKind.THROTTLED:
            self._correlator.give_back(event)

    def _create(self, series: Series[RecordEvent], moment: Moment) -> Generator[Request, OutcomeKind, OutcomeKind]:
        ended = yield new_event(series, instance=moment.sender)
        if ended is OutcomeKind.LOST:
            ended = yield count_event(series)
        if ended is not OutcomeKind.THROTTLED:
            series.written = ended is OutcomeKind.DONE
            self.counts[CREATED] += series.written
        return ended

    def _count(self, series: Series[RecordEvent], moment: Moment) -> Generator[Request, OutcomeKind, OutcomeKind]:
        ended = yield count_event(series)
        if ended is OutcomeKind.GONE:
            return (yield from self._create(series, moment))
        self.counts[COUNTED] += ended is OutcomeKind.DONE
        return ended


def new_event(series: Series[RecordEvent], *, instance: str) -> Request:
    """Build the Event: what happened to which pod, and when it did so first."""
    event = series.event
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": event.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": event.namespace,
            "name": event.name,
            "uid": event.uid,
        },
        "reason": event.code,
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance,
        "firstTimestamp": timestamp(series.first),
        **_lately(series),
    }
    return post_request(_events_path(event), body)


def count_event(series: Series[RecordEvent]) -> Request:
    """Update the Event: how often it happened so far, and the time and text of the last occurrence."""
    return patch_request(object_path(_events_path(series.event), series.name), _lately(series))


def _lately(series: Series[RecordEvent]) -> dict[str, Any]:
    return {"count": series.count, "lastTimestamp": timestamp(series.last), "message": shorten(series.text)}


def timestamp(moment: Moment) -> str:
    """RFC 3339 in whole seconds, as metav1.Time is."""
    return moment.time[: len("2026-11-02T10:00:00")] + "Z"


def shorten(text: str) -> str:
    """Cut a text to 1,024 characters, the limit of the API server."""
    return text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 4] + " ..."


def _events_path(event: RecordEvent) -> str:
    return collection_path("events", namespace=event.namespace)
