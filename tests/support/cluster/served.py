"""A server of one engine in this process, on a socket of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from extender.server.process import ServerProcess
from extender.web.http.server import ServerHandle
from tests.support.http.plain import plain_client


@dataclass
class Served:
    """One server, with a client for its pages."""

    process: ServerProcess
    handle: ServerHandle
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = plain_client(base_url=self.handle.url, timeout=30)

    def stop(self) -> None:
        """Close the client, and stop the server: its calls end first."""
        self.http.close()
        self.process.end_calls()
        self.handle.stop()
        self.process.stop()
