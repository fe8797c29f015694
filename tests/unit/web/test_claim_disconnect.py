"""A caller that leaves in the moment in which its answer is sent: it gets the claim, or nothing stays claimed.

The event loop is stopped at each of its iterations around the answer, and the caller leaves there, on a real socket.
"""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import msgspec
import pytest
from fastapi import FastAPI
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded, StreamReset
from starlette.types import Receive, Scope, Send

from extender.claim_settings import ClaimSettings
from extender.claims.engine import ClaimEngine
from extender.claims.events import NodeSeen, PodSeen, PoolsConfigured, Synced
from extender.claims.records import Mode, Pool, PoolKey, WarmPod
from extender.claims.writes.give import GivePodBack
from extender.claims.writes.take import PodTaken, TakePod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.operate.certs import Authority
from extender.server.claims.runtime import ClaimRuntime
from extender.settings import ServerSettings, Settings, TlsSettings
from extender.web.claims.callers import Callers
from extender.web.claims.handlers import ClaimHandlers
from extender.web.claims.routes import claim_routes
from extender.web.claims.shortcut import ClaimShortcut
from extender.web.e2b.routes import e2b_routes
from extender.web.http.server import serve_in_thread
from extender.web.limits.budget import Budget
from extender.web.pages.metrics import Metrics
from tests.support.http.certificates import Files
from tests.support.http.fixed_runtime import Client

WAIT = 20.0
POOL = PoolKey("default", "warm")
#: Iterations of the event loop by which the caller leaves later than the API server answers.
LEADS = range(-6, 9)
CLAIM, SANDBOX = "/v1/pools/default/warm/claims", "/e2b/sandboxes"


@dataclass
class Desk:
    """A server of claims whose API server is the test: it says when a pod was claimed."""

    server: ServerSettings
    loops: queue.Queue[asyncio.AbstractEventLoop] = field(default_factory=queue.Queue)
    sent: queue.Queue[Any] = field(default_factory=queue.Queue)
    ended: queue.Queue[None] = field(default_factory=queue.Queue)
    loop: asyncio.AbstractEventLoop = field(init=False)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.runtime = ClaimRuntime(ClaimEngine(), self.sent.put, clock=lambda: 0.0)
        pool = Pool(key=POOL, selector={"pool": "warm"}, mode=Mode.RECYCLE, wait_seconds=30.0)
        self.runtime.handle(PoolsConfigured((pool,)), NodeSeen("n", serves=True), Synced())
        settings = ClaimSettings.model_validate({"e2b": {"enabled": True}})
        service: Any = SimpleNamespace(
            settings=settings,
            runtime=self.runtime,
            pools=lambda: (pool,),
            find={POOL: pool}.get,
            is_coming=lambda _: False,
        )
        callers, budget = Callers(settings, None), Budget(1 << 24)
        handlers = ClaimHandlers(service, callers, budget)
        app = FastAPI()
        app.include_router(claim_routes(handlers))
        app.include_router(e2b_routes(service, callers, budget, Metrics(None)))
        app.add_middleware(ClaimShortcut, handlers=handlers)
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.loops.put(asyncio.get_running_loop())
        try:
            await self.app(scope, receive, send)
        finally:
            self.ended.put(None)

    def claim(self, caller: Caller, leave: Callable[[], None], lead: int, *, threads: bool) -> str:
        """Let a caller claim a pod, and leave `lead` iterations of the event loop after the API server's answer to the
        write. Return the name of the claim. `threads`: that answer is handled in another thread than the event loop."""
        pod = self._pod()
        self.runtime.handle(PodSeen(pod))
        caller.ask()
        self.loop = loop = self.loops.get(timeout=WAIT)
        take = self.sent.get(timeout=WAIT)
        assert isinstance(take, TakePod)
        mark = msgspec.structs.replace(pod, mark=take.mark, is_idle=False, resource_version="2", phase="running")
        taken = PodTaken(take.token, Outcome(OutcomeKind.DONE, resource_version="2"), mark)

        def answer() -> None:
            if not threads:
                self.runtime.handle(taken)
                return
            thread = threading.Thread(target=self.runtime.handle, args=(taken,))
            thread.start()
            thread.join()

        def step(at: int) -> None:
            # Of one iteration, the answer comes first: the caller may leave after it and before it is sent.
            if at == max(-lead, 0):
                answer()
            if at == max(lead, 0):
                leave()
            if at < abs(lead):
                loop.call_soon(step, at + 1)
            else:
                self.ended.put(None)

        loop.call_soon_threadsafe(step, 0)
        return take.mark.claim

    def is_claimed(self, claim: str) -> bool:
        """Whether the claim stands once the request has ended and the event loop has seen what was handed over."""
        for _ in ("the request", "the steps"):
            self.ended.get(timeout=WAIT)
        for _ in ("what was handed over", "what waits for it"):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(WAIT)
        commands = [self.sent.get() for _ in range(self.sent.qsize())]
        return not any(isinstance(each, GivePodBack) and each.claim == claim for each in commands)

    def _pod(self) -> WarmPod:
        number = next(self._numbers)
        labels = {"pool": "warm", "waggle.dev/phase": "idle"}
        more: dict[str, Any] = {"has_phase": True, "phase": "idle", "labels": labels, "node": "n"}
        return WarmPod(uid=f"u{number}", namespace="default", name=f"p{number}", resource_version="1", **more)


class Caller:
    """One connection of HTTP/1.1."""

    def __init__(self, sock: socket.socket, path: str = CLAIM, *, headers: str = "", body: bytes = b"{}") -> None:
        self.sock = sock
        self.path = path
        self.headers = headers
        self.body = b'{"templateID": "default/warm"}' if path == SANDBOX else body
        #: The kernel's socket, also of a connection with TLS.
        self._raw = socket.socket(fileno=os.dup(sock.fileno()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self) -> None:
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{self.headers}"
        self.sock.sendall(f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body)

    def stop_sending(self) -> None:
        self._raw.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._raw.close()
        self.sock.close()

    def reset(self) -> None:
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def is_answered(self) -> bool:
        """Read all that comes. Return whether it is a claim."""
        said = b""
        with suppress(OSError):
            while data := self.sock.recv(1 << 16):
                said += data
        assert (
            not said or said.startswith(b"HTTP/1.1 201 ") or (said.startswith(b"HTTP/1.1 499 ") and b"disconn" in said)
        )
        return said.startswith(b"HTTP/1.1 201 ")


class Http2Caller(Caller):
    """One connection of HTTP/2."""

    def ask(self) -> None:
        self.h2 = H2Connection()
        self.h2.initiate_connection()
        named = {":method": "POST", ":scheme": "https", ":authority": "127.0.0.1", ":path": self.path}
        self.h2.send_headers(1, list(named.items()))
        self.h2.send_data(1, b"{}", end_stream=True)
        self.sock.sendall(self.h2.data_to_send())

    def is_answered(self) -> bool:
        body, is_complete = b"", False
        with suppress(OSError):
            while data := self.sock.recv(1 << 16):
                for event in self.h2.receive_data(data):
                    body += event.data if isinstance(event, DataReceived) else b""
                    is_complete |= isinstance(event, StreamEnded) and not isinstance(event, StreamReset)
        return is_complete and b'"Claimed"' in body


@dataclass
class Room:
    desk: Desk
    url: str
    ca: Path | None = None

    def connect(self, *protocols: str) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", Client(self.url).port), WAIT)
        if self.ca is None:
            return sock
        context = ssl.create_default_context(cafile=str(self.ca))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if protocols:
            context.set_alpn_protocols(protocols)
        return context.wrap_socket(sock, server_hostname="127.0.0.1")


@pytest.fixture(scope="module")
def plain() -> Iterator[Room]:
    desk = Desk(ServerSettings(port=0))
    with serve_in_thread(desk, Settings(server=desk.server)) as server:
        yield Room(desk, server.url)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    authority, files = Authority.new(), Files(tmp_path_factory.mktemp("tls"))
    files.write(authority.server(["127.0.0.1"]), authority)
    desk = Desk(ServerSettings(port=0, tls=TlsSettings(cert_file=files.certificate, key_file=files.key)))
    with serve_in_thread(desk, Settings(server=desk.server)) as server:
        yield Room(desk, server.url, files.ca)


@pytest.mark.parametrize("threads", [False, True], ids=["loop", "thread"])
@pytest.mark.parametrize("path", [CLAIM, f"{CLAIM}?long=way", SANDBOX])
def test_a_caller_that_stops_sending_gets_its_claim_or_leaves_none(plain: Room, path: str, threads: bool) -> None:
    for lead in LEADS:
        with Caller(plain.connect(), path) as caller:
            claim = plain.desk.claim(caller, caller.stop_sending, lead, threads=threads)
            is_answered = caller.is_answered()
            assert plain.desk.is_claimed(claim) is is_answered, lead
            assert not (is_answered and lead <= 0), lead  # it had left before the answer was sent


@pytest.mark.parametrize("threads", [False, True], ids=["loop", "thread"])
@pytest.mark.parametrize("end", [Caller.close, Caller.reset])
def test_nothing_stays_claimed_for_a_caller_that_has_left_before_the_answer(
    plain: Room, end: Callable[[Caller], None], threads: bool
) -> None:
    for lead in (each for each in LEADS if each <= 0):
        with Caller(plain.connect()) as caller:
            claim = plain.desk.claim(caller, partial(end, caller), lead, threads=threads)
            assert not plain.desk.is_claimed(claim), lead


def test_a_further_request_that_waits_to_be_read_does_not_hide_that_the_caller_has_left(plain: Room) -> None:
    more = b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for lead in LEADS:
        with Caller(plain.connect()) as caller:

            def leave(caller: Caller = caller) -> None:
                caller.sock.sendall(more)
                caller.stop_sending()

            claim = plain.desk.claim(caller, leave, lead, threads=True)
            is_answered = caller.is_answered()
            assert plain.desk.is_claimed(claim) is is_answered, lead


@pytest.mark.parametrize(("kind", "protocol"), [(Caller, "http/1.1"), (Http2Caller, "h2")], ids=["http1", "http2"])
def test_the_end_of_a_connection_with_tls_counts(secure: Room, kind: type[Caller], protocol: str) -> None:
    for lead in LEADS:
        with kind(secure.connect(protocol)) as caller:
            claim = secure.desk.claim(caller, caller.stop_sending, lead, threads=True)
            is_answered = caller.is_answered()
            assert secure.desk.is_claimed(claim) is is_answered, lead


def test_a_claim_with_a_key_stays_for_the_next_request_with_the_key(plain: Room) -> None:
    with Caller(plain.connect(), body=b'{"key": "k"}') as caller:
        claim = plain.desk.claim(caller, caller.close, 0, threads=True)
        assert plain.desk.is_claimed(claim)


def test_a_request_that_nobody_waits_for_is_cancelled_if_its_caller_does_not_get_its_id(plain: Room) -> None:
    for lead in LEADS:
        with Caller(plain.connect(), headers="Prefer: respond-async, wait=20\r\n") as caller:
            claim = plain.desk.claim(caller, caller.stop_sending, lead, threads=True)
            is_answered = caller.is_answered()
            assert plain.desk.is_claimed(claim) is is_answered, lead
