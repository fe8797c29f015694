"""Connects the commands for claims to Waggle: a client of `extender.client`, directly or through kubectl.

--server URL      this server
otherwise         the Waggle of a cluster, through `kubectl port-forward`, with the certificate of reach.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from extender.client import SyncWaggle, Tls
from extender.operate.look import Server
from extender.operate.reach import Connection, ReachError, Target


class Forwarded(httpx.AsyncBaseTransport):
    """Sends requests through the current port-forward, which may be another one for each request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inner: httpx.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            port, context = await asyncio.to_thread(self._connection.way)
        except ReachError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        if self._inner is None:
            self._inner = httpx.AsyncHTTPTransport(verify=context)
        request.url = request.url.copy_with(host="127.0.0.1", port=port)
        request.extensions = {**request.extensions, "sni_hostname": self._connection.host}
        try:
            return await self._inner.handle_async_request(request)
        except httpx.TransportError:
            await asyncio.to_thread(self._connection.lose_way)
            raise

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()


@contextmanager
def waggle_of(server: Server | None, target: Target, token_file: Path | None) -> Iterator[SyncWaggle]:
    """Yield a client of `server`, or else of the Waggle in the cluster of `target`. Raises ReachError, OSError."""
    if server is None:
        with (
            Connection(target) as connection,
            SyncWaggle(
                f"https://{connection.host}", token=lambda: connection.token, http=Forwarded(connection)
            ) as waggle,
        ):
            yield waggle
        return
    if not server.url.startswith(("http://", "https://")):
        raise ReachError(f"--server: expected http(s)://host:port, got {server.url!r}")
    if token_file is not None and server.url.startswith("http://"):
        raise ReachError("--token-file: a token is sent over https only")

    def token() -> str:
        """Read the file for every request, because Kubernetes' tokens expire after an hour."""
        return token_file.read_text(encoding="utf-8").strip() if token_file is not None else ""

    token()
    files = Tls(server.ca_file, server.cert, server.key) if server.ca_file or server.cert else None
    with SyncWaggle(server.url, token=token, tls=files) as waggle:
        yield waggle
