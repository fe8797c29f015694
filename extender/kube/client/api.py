"""Requests to the API server, from any number of threads: `exchange.py` has what can become of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extender.core.requests import Request
from extender.kube.client import bounds
from extender.kube.client.exchange import Exchange, Interrupted
from extender.kube.client.messages import Cause, Response
from extender.kube.client.session import ApiError, Session, Unreachable

__all__ = ["ApiError", "ApiServer", "Cause", "Exchange", "Interrupted", "Request", "Response", "Unreachable"]


def _always() -> bool:
    return True


class ApiServer(Session):
    """The API server at `endpoint`."""

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
        most: int = bounds.OBJECT,
    ) -> Response:
        """Make one call; any HTTP status is a Response. Raises Unreachable or Interrupted."""
        asked = Request(method, path, query, body, content_type, most)
        with self.exchange(asked, timeout=timeout) as exchange:
            return exchange.response()

    def stream(self, path: str, *, query: Mapping[str, str] | None = None, timeout_read: float) -> Exchange:
        """A GET whose body is read piece by piece: `with api.stream(...) as s: s.status; for chunk in s: ...`.

        `timeout_read`: seconds until its end; the reader has to extend it.
        """
        return self.exchange(Request("GET", path, query), timeout=timeout_read)

    def exchange(
        self,
        request: Request,
        *,
        timeout: float | None = None,
        may_send: Callable[[], bool] = _always,
    ) -> Exchange:
        """Prepare a call: it starts on entering, and any thread may interrupt it.

        `timeout` is in seconds for all of it. `may_send` is called when credentials and connection are ready, right
        before the first byte leaves; if it returns False, nothing is sent.
        """
        timeout = self.timeout if timeout is None else timeout
        return Exchange(self, request, timeout=timeout, may_send=may_send)
