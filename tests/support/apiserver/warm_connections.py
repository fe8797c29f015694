"""An API client whose connections stand already, so that the committer's pilot makes the requests, not its workers."""

from __future__ import annotations

from contextlib import ExitStack

from extender.kube.client.api import ApiServer, Request
from tests.support.apiserver.scripted_server import ScriptedServer, reply


def warm(server: ScriptedServer, api: ApiServer, number: int) -> None:
    """Leaves so many standing connections, and no trace in the server's list of requests."""
    server.on("GET", "/warm", reply(200))
    with ExitStack() as opened:
        for _ in range(number):
            opened.enter_context(api.exchange(Request("GET", "/warm"))).read()
    server.requests.clear()
