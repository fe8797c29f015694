"""Runs the app: sockets, TLS, signals. In the main thread for `waggle serve`, beside it for tests and `waggle demo`.

Idle connections are kept for longer than kube-scheduler keeps them (90 s): its client does not repeat a POST that meets
a closed connection, and the pod would fail with "EOF".
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from threading import Event, Thread
from types import FrameType, TracebackType
from typing import Self

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from extender.settings import ServerSettings, Settings, SettingsError
from extender.web.certificates import Certificates

#: Seconds that running requests get when the server shuts down: a bind waits for one API call.
_GRACE_SECONDS = 15
#: Seconds after which a thread that computes lets go of the interpreter. Python's own 5 ms would be added to nearly
#: every answer while an informer decodes.
_SWITCH_SECONDS = 0.0005
_BACKLOG = 2048
#: Bytes of a request line with its headers; kube-scheduler's are some 200. What arrives in one piece may be more.
_LONGEST_HEAD = 64 * 1024


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which ends a connection whose request line or headers do not end: it would keep them all."""

    _head_bytes = 0
    _in_head = True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _LONGEST_HEAD:
                self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn that says when it serves, and that returns after a signal instead of raising it again."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

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
    listener = _listen(settings.server)
    url = _url(settings.server, listener)
    with listener:
        server = _make(app, settings.server, shown, lambda: on_started(url))
        with shown.watched():
            server.run([listener])


class ServerHandle:
    """A server that runs in a thread of its own; a context manager that stops it."""

    def __init__(self, app: FastAPI, settings: ServerSettings, certificates: Certificates | None = None) -> None:
        self._certificates = certificates or Certificates(settings.tls)
        self._listener = _listen(settings)
        self.url = _url(settings, self._listener)
        self._started = Event()
        try:
            self._server = _make(app, settings, self._certificates, self._started.set)
        except SettingsError:
            self._listener.close()
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
                self._server.run([self._listener])
        finally:
            self._started.set()
            self._listener.close()

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
    config = uvicorn.Config(
        app,
        loop="auto",  # uvloop, except where it cannot be installed
        http=_Protocol,
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
    return _Server(config, on_started)


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except (OSError, TypeError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise SettingsError(
            f"server.host, server.port: cannot listen on {settings.host}:{settings.port}: {why}"
        ) from error


def _url(settings: ServerSettings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
