"""Runs the app: sockets, TLS, signals. In the main thread for `waggle serve`, beside it for tests and `waggle demo`.

Idle connections are kept for longer than kube-scheduler keeps them (90 s): its client does not repeat a POST that meets
a closed connection, and the pod would fail with "EOF".
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from threading import Event, Thread
from types import FrameType, TracebackType
from typing import Self

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from extender.settings import ServerSettings, Settings, SettingsError
from extender.web.certificates import Certificates
from extender.web.health import ProbesOnly
from extender.web.http2 import Http2
from extender.web.protocol import WaggleProtocol

#: Seconds that running requests get when the server shuts down: a bind waits for one API call.
_GRACE_SECONDS = 15
#: Seconds after which a thread that computes lets go of the interpreter. Python's own 5 ms would be added to nearly
#: every answer while an informer decodes.
_SWITCH_SECONDS = 0.0005
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """uvicorn that says when it serves, and that returns after a signal instead of raising it again.

    `health` is what it serves on the last of its sockets, beside what `config` says on the others: in the same event
    loop, so that one that hangs fails its probes.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        health: uvicorn.Config | None,
        certificates: Certificates,
        on_started: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._certificates = certificates
        self._health = health
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._health is None:
            await super().startup(sockets)
        else:
            assert sockets is not None
            await super().startup(sockets[:-1])
            protocol = partial(WaggleProtocol, self._health, self.server_state, {})
            loop = asyncio.get_running_loop()
            self.servers.append(await loop.create_server(protocol, sock=sockets[-1], backlog=_BACKLOG))
        self._certificates.on_renewal(partial(self._from_a_thread, asyncio.get_running_loop(), self._renew))
        self._on_started()

    def _from_a_thread(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(call)

    def _renew(self) -> None:
        """Whoever is connected is to shake hands again, with the certificates of now."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, WaggleProtocol | Http2):
                connection.renew()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's form
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve(
    app: FastAPI,
    settings: Settings,
    *,
    certificates: Certificates | None = None,
    on_started: Callable[[str], None] = lambda _url: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is running and return. Call it in the main thread.

    `certificates` are those that the app tells about. `on_started` is called with the URL once connections are
    accepted. Raises SettingsError if the address or the certificates cannot be used.
    """
    shown = certificates or Certificates(settings.server.tls)
    app.openapi()  # made once, in 100 ms, for which kube-scheduler would stand still with the first wrong path
    with ExitStack() as opened:
        listeners = _listen(settings.server, opened)
        url = _url(settings.server, listeners[0])
        server = _make(app, settings.server, shown, lambda: on_started(url))
        with shown.watched():
            server.run(listeners)


class ServerHandle:
    """A server that runs in a thread of its own; a context manager that stops it."""

    def __init__(self, app: FastAPI, settings: ServerSettings, certificates: Certificates | None = None) -> None:
        self._certificates = certificates or Certificates(settings.tls)
        self._opened = ExitStack()
        self._listeners = _listen(settings, self._opened)
        self.url = _url(settings, self._listeners[0])
        #: Where probes and metrics are in plain HTTP; "" without a health_port.
        self.health_url = _url(settings.model_copy(update={"tls": None}), self._listeners[-1]) if _two(settings) else ""
        self._started = Event()
        try:
            self._server = _make(app, settings, self._certificates, self._started.set)
        except SettingsError:
            self._opened.close()
            raise
        self._thread = Thread(target=self._run, name="waggle-web", daemon=True)
        self._thread.start()
        self._started.wait()
        if not self._server.started:
            self._thread.join()
            raise RuntimeError(f"the server at {self.url} did not start; the log says why")

    def _run(self) -> None:
        try:
            with self._certificates.watched():
                self._server.run(self._listeners)
        finally:
            self._started.set()
            self._opened.close()

    def stop(self) -> None:
        """Finish what is running, close every connection and wait for the end. May be called twice."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serve_in_thread(app: FastAPI, settings: Settings, *, certificates: Certificates | None = None) -> ServerHandle:
    """Serve beside the caller; returns once connections are accepted. Raises SettingsError as `serve` does."""
    return ServerHandle(app, settings.server, certificates)


def _make(
    app: FastAPI, settings: ServerSettings, certificates: Certificates, on_started: Callable[[], None]
) -> _Server:
    context = certificates.context()
    sys.setswitchinterval(_SWITCH_SECONDS)
    probes = _config(ProbesOnly(app), settings) if _two(settings) else None
    return _Server(_config(app, settings, context), probes, certificates, on_started)


def _config(app: ASGIApp, settings: ServerSettings, context: ssl.SSLContext | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="auto",  # uvloop, except where it cannot be installed
        http=WaggleProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing here asks who called
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_context_factory=None if context is None else lambda _config, _usual: context,
    )


def _listen(settings: ServerSettings, opened: ExitStack) -> list[socket.socket]:
    """What serves on `port`, and behind it what serves on `health_port`, if there is one; `opened` closes them."""
    ports = {"server.port": settings.port}
    if settings.health_port is not None:
        ports["server.health_port"] = settings.health_port
    with ExitStack() as so_far:
        listeners = [so_far.enter_context(_listen_on(settings.host, port, field)) for field, port in ports.items()]
        opened.push(so_far.pop_all())
    return listeners


def _listen_on(host: str, port: int, field: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, TypeError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise SettingsError(f"server.host, {field}: cannot listen on {host}:{port}: {why}") from error


def _two(settings: ServerSettings) -> bool:
    return settings.health_port is not None


def _url(settings: ServerSettings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
