"""Requests that carry a term: they leave only while it lasts, up to the very last moment before sending."""

from __future__ import annotations

import math

from extender.kube.client.api import ApiServer, Exchange, Request
from extender.kube.client.transport import Connection
from extender.kube.lease.elector import Fence
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding

#: Seconds that a term must still last for a write to be sent: it should arrive before somebody else may decide.
_LEAST_TIME = 0.25

Command = WriteBinding | ReadPod | Evict | RecordPreemption | RequeuePod | RecordEvent


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
        return self._api.exchange(request, timeout=self.patience(command), may_send=lambda: self.permits(command))

    def patience(self, command: Command) -> float:
        """Seconds to wait for the answer."""
        return max(_LEAST_TIME, min(self._api.timeout, self._time_left(command)))

    def standing(self) -> Connection | None:
        """A connection for a request that can leave at once, credentials being at hand too. Raises Unreachable."""
        return self._api.standing() if self._api.at_hand else None

    def refused(self) -> None:
        """The server did not accept our credentials; may take its time."""
        self._api.endpoint.refused()

    def _time_left(self, command: Command) -> float:
        return math.inf if isinstance(command, ReadPod) else self._fence(command.term)
