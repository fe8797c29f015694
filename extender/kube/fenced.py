"""Requests that carry a term: they leave only while it lasts, up to the very last moment before sending."""

from __future__ import annotations

import math

from extender.core.events import Evict, Nudge, ReadPod, RecordEvent, RecordPreemption, WriteBinding
from extender.kube.api import ApiServer, Exchange, Request
from extender.kube.lease import Fence

#: Seconds that a term must still last for a write to be sent: it should arrive before somebody else may decide.
_LEAST_TIME = 0.25

Command = WriteBinding | ReadPod | Evict | RecordPreemption | Nudge | RecordEvent


class FencedApi:
    """The API server as leaders of a term may use it."""

    def __init__(self, api: ApiServer, fence: Fence) -> None:
        self._api = api
        self._fence = fence

    def permits(self, command: Command) -> bool:
        """Whether its term lasts long enough for it to be sent now; a read always may."""
        return self._time_left(command) > _LEAST_TIME

    def exchange(self, request: Request, command: Command) -> Exchange:
        """The request, which leaves only while the command's term lasts, and waits no longer than that."""
        patience = max(_LEAST_TIME, min(self._api.timeout, self._time_left(command)))
        return self._api.exchange(request, timeout=patience, may_send=lambda: self.permits(command))

    def _time_left(self, command: Command) -> float:
        return math.inf if isinstance(command, ReadPod) else self._fence(command.term)
