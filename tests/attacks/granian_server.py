"""Waggle's verbs behind Granian, for the comparison in docs/dependencies.md. It is no dependency: install it by hand.

    python -m tests.attacks.granian_server API_SERVER_URL PORT [FOLDER]     (FOLDER: ca.crt, server.crt, server.key)

Prints "ready URL". Service and verbs are Waggle's own, as `waggle serve` has them; the HTTP layer (TLS, HTTP/1.1,
HTTP/2) is Granian's, embedded in this process, with the limits that it offers. It adds the floor of `make bench`.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.embed import Server

from extender.logs.setup import configure
from extender.settings import Settings
from extender.web.verbs.handler import Reply, VerbHandler, _resolve
from tests.bench.server import start


class Verbs:
    """Granian's application interface (RSGI) in front of the verbs."""

    def __init__(self, endpoints: dict[str, VerbHandler]) -> None:
        self._endpoints = endpoints
        self._headers = [("content-type", "application/json")]

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        endpoint = self._endpoints.get(scope.path)
        if endpoint is None or scope.method != "POST":
            protocol.response_empty(404, [])
            return
        if not endpoint.takes(scope.headers.get("content-length", "0").encode()):
            protocol.response_empty(413, [])
            return
        body = await protocol()
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Reply] = loop.create_future()
        endpoint.answer(body, partial(_resolve, answered), loop.call_soon_threadsafe)
        reply = await answered
        protocol.response_bytes(reply.status, self._headers, reply.body)


async def _serve(verbs: Verbs, port: int, folder: Path | None) -> None:
    tls: dict[str, Any] = {}
    if folder is not None:
        tls = {
            "ssl_cert": folder / "server.crt",
            "ssl_key": folder / "server.key",
            "ssl_ca": folder / "ca.crt",
            "ssl_client_verify": True,
        }
    server = Server(
        verbs,
        port=port,
        interface=Interfaces.RSGI,
        http=HTTPModes.auto,
        websockets=False,
        backlog=2048,
        http1_settings=HTTP1Settings(header_read_timeout=10_000),
        http2_settings=HTTP2Settings(max_concurrent_streams=250, max_headers_size=1 << 16),
        **tls,
    )
    print(f"ready {'https' if folder else 'http'}://127.0.0.1:{port}", flush=True)
    await server.serve()


def main(api_server: str, port: str, folder: str = "") -> None:
    settings = Settings.model_validate({"cluster": {"server": api_server}})
    configure(settings.log)
    _, app = start(settings)
    sys.setswitchinterval(0.0005)
    uvloop.run(_serve(Verbs(app.verbs), int(port), Path(folder) if folder else None))


if __name__ == "__main__":
    main(*sys.argv[1:])
