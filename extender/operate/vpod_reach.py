"""Connects the commands for vpods to Waggle, directly or through kubectl, as those for claims.

All requests of one command are made in one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from extender.client.transport import Tls, Transport
from extender.operate.claim_reach import Forwarded
from extender.operate.look import Server
from extender.operate.reach import Connection, ReachError, Target

#: Seconds that a dry run may take.
_PATIENCE = 30.0


class VPodPages:
    """The calls of the HTTP API of vpods. Each raises WaggleError."""

    def __init__(self, runner: asyncio.Runner, transport: Transport) -> None:
        self._runner, self._transport = runner, transport

    def sets(self, namespace: str) -> Any:
        return self._ask("GET", "/v1/vpods", query={"namespace": namespace} if namespace else {})

    def one(self, namespace: str, name: str, **query: str) -> Any:
        return self._ask("GET", _path(namespace, name), query=query)

    def plan(self, namespace: str, name: str, body: Mapping[str, object]) -> Any:
        return self._ask("POST", f"{_path(namespace, name)}/plan", body=body)

    def explain(self, namespace: str, name: str, vpod: str) -> Any:
        return self._ask("POST", f"{_path(namespace, name)}/explain", body={"vpod": vpod})

    def _ask(self, method: str, path: str, **given: Any) -> Any:
        return self._runner.run(self._transport.ask(dict[str, Any], method, path, patience=_PATIENCE, **given))


def _path(namespace: str, name: str) -> str:
    return f"/v1/vpods/{quote(namespace, safe='')}/{quote(name, safe='')}"


@contextmanager
def vpods_of(server: Server | None, target: Target, token_file: Path | None) -> Iterator[VPodPages]:
    """Yield the calls to `server`, or else to the Waggle in the cluster of `target`. Raises ReachError, OSError."""
    if server is None:
        with Connection(target) as connection:
            url = f"https://{connection.host}"
            with _opened(Transport(url, lambda: connection.token, http=Forwarded(connection))) as pages:
                yield pages
        return
    if not server.url.startswith(("http://", "https://")):
        raise ReachError(f"--server: expected http(s)://host:port, got {server.url!r}")
    if token_file is not None and server.url.startswith("http://"):
        raise ReachError("--token-file: a token is sent over https only")
    token = token_file.read_text(encoding="utf-8").strip() if token_file is not None else ""
    files = Tls(server.ca_file, server.cert, server.key) if server.ca_file or server.cert else None
    with _opened(Transport(server.url, token, files)) as pages:
        yield pages


@contextmanager
def _opened(transport: Transport) -> Iterator[VPodPages]:
    with asyncio.Runner() as runner:
        runner.run(transport.__aenter__())
        try:
            yield VPodPages(runner, transport)
        finally:
            runner.run(transport.__aexit__(None, None, None))
