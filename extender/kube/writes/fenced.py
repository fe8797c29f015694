"""Requests that carry a term: they are sent only while the term lasts, which is checked up to the last moment."""

from __future__ import annotations

import math

from extender.kube.client.api import ApiServer, Exchange, Request
from extender.kube.client.transport import Connection
from extender.kube.lease.elector import Fence
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding

#: Seconds that a term must still last for a write to be sent: the write should arrive before another leader may decide.
_LEAST_TIME = 0.25

Command = WriteBinding | ReadPod | Evict | RecordPreemption | RequeuePod | RecordEvent


class FencedApi:
    """The API server as a leader may use it during a term."""

    def __init__(self, api: ApiServer, fence: Fence) -> None:
        self._api = api
        self._fence = fence

    def permits(self, command: Command) -> bool:
        """Whether the command's term lasts long enough to send it now; a read is always permitted."""
        return self._time_left(command) > _LEAST_TIME

    def exchange(self, request: Request, command: Command) -> Exchange:
        """An exchange that is sent only while the command's term lasts, and that waits for its response no longer than
        that."""
        return self._api.exchange(request, timeout=self.patience(command), may_send=lambda: self.permits(command))

    def patience(self, command: Command) -> float:
        """Seconds to wait for the response."""
        return max(_LEAST_TIME, min(self._api.timeout, self._time_left(command)))

    def standing(self) -> Connection | None:
        """An open connection for a request that can be sent at once, with credentials at hand; None otherwise. Raises
        Unreachable."""
        return self._api.standing() if self._api.at_hand else None

    def refused(self) -> None:
        """The server did not accept our credentials: have them read anew, which may block."""
        self._api.endpoint.refused()

    def _time_left(self, command: Command) -> float:
        return math.inf if isinstance(command, ReadPod) else self._fence(command.term)
