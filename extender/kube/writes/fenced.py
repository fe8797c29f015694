"""Requests that carry a term: they are sent only while the term lasts, which is checked up to the last moment."""

from __future__ import annotations

import math

from extender.core.requests import Request
from extender.kube.client.api import ApiServer, Exchange
from extender.kube.client.transport import Connection
from extender.kube.lease.elector import Fence

#: Seconds that a term must still last for a write to be sent: the write should arrive before another leader may decide.
_LEAST_TIME = 0.25


class FencedApi:
    """The API server as a leader may use it during a term. A `term` of None is that of a read: it always lasts."""

    def __init__(self, api: ApiServer, fence: Fence) -> None:
        self._api = api
        self._fence = fence

    def permits(self, term: int | None) -> bool:
        """Whether the term lasts long enough to send something now."""
        return self._time_left(term) > _LEAST_TIME

    def exchange(self, request: Request, term: int | None) -> Exchange:
        """An exchange that is sent only while the term lasts, and that waits for its response no longer than that."""
        return self._api.exchange(request, timeout=self.patience(term), may_send=lambda: self.permits(term))

    def patience(self, term: int | None) -> float:
        """Seconds to wait for the response."""
        return max(_LEAST_TIME, min(self._api.timeout, self._time_left(term)))

    def idle_connection(self) -> Connection | None:
        """An open connection for a request that can be sent at once, with credentials at hand; None otherwise. Raises
        Unreachable."""
        return self._api.idle_connection() if self._api.at_hand else None

    def refused(self) -> None:
        """The server did not accept our credentials: have them read anew, which may block."""
        self._api.endpoint.refused()

    def _time_left(self, term: int | None) -> float:
        return math.inf if term is None else self._fence(term)
