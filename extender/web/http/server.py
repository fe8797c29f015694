"""Runs the app: listeners, signals. In the main thread for `waggle serve`, in another one for tests and `waggle demo`.

Idle connections are kept for longer than kube-scheduler keeps them (90 s): its client does not repeat a POST on a
connection that was closed, and the pod would fail with "EOF".
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Event, Thread
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import uvicorn

from extender.server.views import Metric
from extender.settings import ServerSettings, Settings, SettingsError
from extender.web.http.callers import Caller
from extender.web.http.certificates import Certificates
from extender.web.http.connections import Connections, connection_metrics, raise_descriptor_limit, shares
from extender.web.http.listener import Listener
from extender.web.http.peers import ClientNames, Peer, names_of
from extender.web.http.protocol import WaggleProtocol
from extender.web.http.trim import LOOK_SECONDS, Trimmer
from extender.web.limits.budget import budgets_of
from extender.web.pages.metrics import Metrics
from extender.web.pages.probes import Probes, ProbesOnly, Pulse
from extender.web.verbs.handler import VerbHandler

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from extender.web.http.http2 import Http2

#: Seconds that running requests get when the server shuts down: a bind waits for one API call.
_GRACE_SECONDS = 15
#: Switch interval of the interpreter, in seconds. Python's own 5 ms would be added to nearly every answer while an
#: informer decodes.
_SWITCH_SECONDS = 0.0005
_BACKLOG = 2048
#: Seconds between two beats of the event loop's pulse, by which the health port sees that it moves.
_BEAT_SECONDS = 1.0
#: Seconds after the start in which a server has better things to do than to make pages (lazy.py).
PREPARE_SECONDS = 2.0


class Hosted(Protocol):
    """Work that runs in the server's event loop as long as that runs, and in a thread before and afterwards.

    A thread that wakes up for each call would take the interpreter away from the loop again and again.
    """

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work in this loop, which is the running one."""

    def leave_loop(self) -> None:
        """Work in a thread again: the loop has ended, or was never entered."""

    def end_calls(self) -> None:
        """The server goes down: answer the callers that wait for something to happen. Called in the loop."""


class _Server(uvicorn.Server):
    """uvicorn with a listener of our own. It reports when it serves, and after a signal it returns."""

    def __init__(
        self,
        config: uvicorn.Config,
        certificates: Certificates,
        connections: Connections,
        on_started: Callable[[], None],
        hosted: Hosted | None,
    ) -> None:
        super().__init__(config)
        self._hosted = hosted
        self._certificates = certificates
        self._clients = ClientNames(certificates.settings)
        verbs: Mapping[str, VerbHandler] = getattr(config.app, "verbs", {})
        self._verbs = {path.encode(): endpoint for path, endpoint in verbs.items()}
        self.connections = connections
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        await self.lifespan.startup()
        tls = None if self._certificates.context() is None else self._certificates
        listener = Listener(sockets[0], self.connections, self._protocol, tls)
        listener.start()
        self.servers = [listener]  # type: ignore[list-item]  # of a server uvicorn wants no more than Listener has
        self._certificates.on_renewal(partial(self._from_a_thread, asyncio.get_running_loop(), listener.renew))
        self._look_after_memory(Trimmer(budgets_of(self.config.app)))
        if self._hosted is not None:
            self._hosted.enter_loop(asyncio.get_running_loop())
        if isinstance(probes := getattr(self.config.app, "probes", None), Probes):
            self._beat(probes.pulse)
        self.started = True
        self._on_started()
        if (prepare := getattr(self.config.app, "prepare", None)) is not None:
            asyncio.get_running_loop().call_later(PREPARE_SECONDS, prepare)

    def _protocol(self, caller: Caller, ended: Callable[[], None]) -> WaggleProtocol | Http2:
        names = names_of(caller.certificate)
        verbs = self._clients.may_call_verbs(names)
        peer = Peer(
            address=caller.address,
            verbs=self._verbs if verbs else {},
            ended=ended,
            may_call_verbs=verbs,
            may_see_pages=self._clients.may_see_pages(names),
            trusted=verbs and bool(caller.certificate),
            names=names,
        )
        if not caller.http2:
            return WaggleProtocol(self.config, self.server_state, peer)
        from extender.web.http.http2 import Http2  # noqa: PLC0415 - a server without TLS never needs it

        return Http2(self.config, self.server_state, peer)

    def _look_after_memory(self, trimmer: Trimmer) -> None:
        trimmer.look()
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_after_memory, trimmer)

    def _from_a_thread(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(call)

    def _beat(self, pulse: Pulse) -> None:
        pulse.beat()
        asyncio.get_running_loop().call_later(_BEAT_SECONDS, self._beat, pulse)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._hosted is not None:
            self._hosted.end_calls()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's form
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


#: The sockets that are listened on: that of `port`, and after it that of `health_port`, if there is one.
Listeners = list[socket.socket]


@contextmanager
def listening(settings: ServerSettings) -> Iterator[Listeners]:
    """Open the sockets, and close them at the end. Raises SettingsError, naming the port that cannot be used.

    Connections queue in the kernel until `serve` accepts them: a program that opens its ports first starts nothing that
    it would have to take back.
    """
    with ExitStack() as opened:
        yield _listen(settings, opened)


def serve(
    app: ASGIApp,
    settings: Settings,
    *,
    listeners: Listeners | None = None,
    certificates: Certificates | None = None,
    on_started: Callable[[str], None] = lambda _url: None,
    hosted: Hosted | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is running and return. Call it in the main thread.

    `listeners` are open already, and stay open for the caller to close. `certificates` are those that the app reports
    on. `on_started` is called with the URL once connections are accepted. `hosted` runs in the server's event loop
    meanwhile. Raises SettingsError if the address or the certificates cannot be used.
    """
    shown = certificates or Certificates(settings.server.tls)
    with ExitStack() as opened:
        listeners = listeners or opened.enter_context(listening(settings.server))
        url = _url(settings.server, listeners[0])
        server, health = _make(app, settings.server, shown, lambda: on_started(url), hosted)
        if hosted is not None:
            opened.callback(hosted.leave_loop)
        with shown.watched(), _beside(health, listeners[1:]):
            server.run(listeners[:1])


class ServerHandle:
    """A server that runs in a thread of its own; a context manager that stops it."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, certificates: Certificates | None = None) -> None:
        self._certificates = certificates or Certificates(settings.tls)
        self._opened = ExitStack()
        self._listeners = _listen(settings, self._opened)
        self.url = _url(settings, self._listeners[0])
        #: Where probes and metrics are in plain HTTP; "" without a health_port.
        self.health_url = _url(settings.model_copy(update={"tls": None}), self._listeners[-1]) if _two(settings) else ""
        self._started = Event()
        try:
            self._server, self._health = _make(app, settings, self._certificates, self._started.set)
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
            with self._certificates.watched(), _beside(self._health, self._listeners[1:]):
                self._server.run(self._listeners[:1])
        finally:
            self._started.set()
            self._opened.close()

    def metrics(self) -> list[Metric]:
        """The connections of its ports."""
        ports = [self._server] if self._health is None else [self._server, self._health]
        return connection_metrics([port.connections for port in ports])

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


def serve_in_thread(app: ASGIApp, settings: Settings, *, certificates: Certificates | None = None) -> ServerHandle:
    """Serve in another thread; returns once connections are accepted. Raises SettingsError as `serve` does."""
    return ServerHandle(app, settings.server, certificates)


def _make(
    app: ASGIApp,
    settings: ServerSettings,
    certificates: Certificates,
    on_started: Callable[[], None],
    hosted: Hosted | None = None,
) -> tuple[_Server, _Server | None]:
    """The server, and that of the health port, if there is one."""
    certificates.context()
    sys.setswitchinterval(_SWITCH_SECONDS)
    limits = shares(raise_descriptor_limit(), settings.max_connections)
    connections = [Connections("server", limits[0]), Connections("health", limits[1])]
    server = _Server(_config(app, settings), certificates, connections[0], on_started, hosted)
    health = None
    probes, metrics = getattr(app, "probes", None), getattr(app, "metrics", None)
    if isinstance(metrics, Metrics):
        metrics.sources.append(partial(connection_metrics, connections))
        if _two(settings) and isinstance(probes, Probes):
            config = _config(ProbesOnly(probes, metrics), settings)
            health = _Server(config, Certificates(None), connections[1], lambda: None, None)
    return server, health


@contextmanager
def _beside(health: _Server | None, listeners: Listeners) -> Iterator[None]:
    """Serve the health port meanwhile, in a thread with an event loop of its own."""
    if health is None:
        yield
        return
    thread = Thread(target=health.run, args=(listeners,), name="waggle-health", daemon=True)
    thread.start()
    try:
        yield
    finally:
        health.should_exit = True
        thread.join()


def _config(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="auto",  # uvloop, except where it cannot be installed
        http=WaggleProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing here asks for the caller's address
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


def _listen(settings: ServerSettings, opened: ExitStack) -> Listeners:
    """The listener of `port`, and after it that of `health_port`, if there is one; `opened` closes them."""
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
        raise SettingsError(f"server.host, {field}: cannot listen on {host}:{port}: {_why(error, port)}") from error


def _why(error: Exception, port: int) -> str:
    if not isinstance(error, OSError) or not error.errno:
        return str(error)
    why = os.strerror(error.errno)
    match error.errno:
        case errno.EADDRINUSE:
            return f"{why}; this shows which process has the port: ss -ltnp 'sport = :{port}'"
        case errno.EACCES:
            return f"{why}; a port below 1024 needs the capability NET_BIND_SERVICE"
        case _:
            return why


def _two(settings: ServerSettings) -> bool:
    return settings.health_port is not None


def _url(settings: ServerSettings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
