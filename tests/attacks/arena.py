"""The tools of an attack: connections to the server, its API server, and looks at what it does."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import httpx

from tests.attacks.probe import client_context, read_answer
from tests.attacks.requests import filter_request
from tests.attacks.servers import KUBE_SCHEDULER, AttackedServers, Server


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Arena:
    """One attack on one server."""

    def __init__(self, world: AttackedServers) -> None:
        self.server: Server = world.server
        #: The API server: an HTTP client whose base is its URL.
        self.api: httpx.Client = world.api
        self._logged = self._log_size()

    @property
    def scheme(self) -> str:
        return self.server.scheme

    # -- connections ------------------------------------------------------------------------------------------------

    def tcp(self, *, health: bool = False, timeout: float = 20, source: str = "127.0.0.1") -> socket.socket:
        """A TCP connection on which nothing was sent; of the health port if that was said. `source`: its address."""
        port = self.server.health_port if health else self.server.port
        connection = socket.create_connection(("127.0.0.1", port), timeout=timeout, source_address=(source, 0))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def connect(
        self,
        *,
        health: bool = False,
        alpn: tuple[str, ...] = ("http/1.1",),
        client: str = KUBE_SCHEDULER,
        timeout: float = 20,
    ) -> socket.socket:
        """A connection, after the TLS handshake where the server speaks TLS. `client`: its certificate."""
        connection = self.tcp(health=health, timeout=timeout)
        if health or self.server.certs is None:
            return connection
        context = client_context(self.server.certs, alpn, client)
        return context.wrap_socket(connection, server_hostname="localhost")

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        health: bool = False,
        client: str = KUBE_SCHEDULER,
        timeout: float = 20,
    ) -> Answer:
        """One request on a connection of its own. Raises OSError, http.client.HTTPException."""
        with self.connect(health=health, client=client, timeout=timeout) as opened:
            connection = http.client.HTTPConnection("127.0.0.1")
            connection.sock = opened
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def new_client(self) -> float:
        """Seconds that a valid client needs to connect anew and to get its /filter answered. Raises OSError."""
        began = time.monotonic()
        with self.connect() as connection:
            connection.sendall(filter_request("newcomer", "uid-newcomer"))
            status, body = read_answer(connection)
        assert status == 200, body[:500]
        return time.monotonic() - began

    # -- looks ------------------------------------------------------------------------------------------------------

    def logged(self) -> bytes:
        """What the server has logged since the attack began."""
        with self.server.log.open("rb") as log:
            log.seek(self._logged)
            return log.read()

    def _log_size(self) -> int:
        return self.server.log.stat().st_size

    def metric(self, line: str) -> float:
        """The sum of the samples of /metrics whose line begins so."""
        text = self.call("GET", "/metrics", health=True).body.decode()
        return sum(float(each.rpartition(" ")[2]) for each in text.splitlines() if each.startswith(line))


def eventually(condition: Callable[[], bool], *, seconds: float = 15, every: float = 0.05) -> bool:
    """Whether the condition becomes true in that time."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(every)
    return True


def is_closed(connection: socket.socket, *, within: float) -> bool:
    """Whether the server ends this connection in so many seconds; what it sends before that is read and dropped."""
    give_up = time.monotonic() + within
    try:
        while (left := give_up - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(1 << 16):
                return True
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True
    return False
