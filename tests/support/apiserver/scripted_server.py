"""An API server that does as it is told, fault by fault: raw sockets, one thread a connection.

    with ScriptedServer() as server:
        server.on("GET", "/api/v1/pods", reply(200, {...}), hang())    # first answer, then every later one
        server.requests                                                # what came, in order

An answer is a function that gets the connection's `Peer` and the `Request`; the last of a script repeats.
"""

from __future__ import annotations

import json
import queue
import socket
import ssl
import struct
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

WAIT = 20.0


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Closed(Exception):
    """The answer ends the connection."""


class Peer:
    """The server's side of one connection."""

    def __init__(self, sock: socket.socket, stopped: threading.Event) -> None:
        self._sock = sock
        self.stopped = stopped

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def reset_on_close(self) -> None:
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    def start_chunks(self, status: int = 200) -> None:
        self.head(status, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end_chunks(self) -> None:
        self.send(b"0\r\n\r\n")

    def hang(self) -> None:
        """Half-open: say nothing until the server is stopped."""
        self.stopped.wait(WAIT * 3)
        raise Closed


Answer = Callable[[Peer, Request], None]


def reply(status: int, body: Any = b"", **headers: str) -> Answer:
    """A whole answer; `Retry_After="1"` becomes the header Retry-After."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(peer: Peer, _request: Request) -> None:
        peer.head(status, {"Content-Type": "application/json", "Content-Length": str(len(data)), **names})
        peer.send(data)

    return answer


def status(code: int, message: str = "", reason: str = "", **headers: str) -> Answer:
    """A Kubernetes Status object with its HTTP status."""
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "message": message, "reason": reason}
    return reply(code, body, **headers)


def hang() -> Answer:
    """Take the request, never answer."""
    return lambda peer, _request: peer.hang()


def drop() -> Answer:
    """Take the request (the write is applied), then close without a word."""

    def answer(_peer: Peer, _request: Request) -> None:
        raise Closed

    return answer


def reset() -> Answer:
    """Take the request, then reset the connection: the client's kernel forgets what it had received."""

    def answer(peer: Peer, _request: Request) -> None:
        peer.reset_on_close()
        raise Closed

    return answer


def garbage(data: bytes) -> Answer:
    """Send these bytes, whatever they are, and close."""

    def answer(peer: Peer, _request: Request) -> None:
        peer.send(data)
        raise Closed

    return answer


def truncated(body: bytes) -> Answer:
    """Promise more than is sent, then close."""

    def answer(peer: Peer, _request: Request) -> None:
        peer.head(200, {"Content-Length": str(len(body) + 1000)})
        peer.send(body)
        raise Closed

    return answer


def lines(*events: Any, then: str = "end") -> Answer:
    """A watch: the events (objects, or bytes as they are), and `then` "end" it, "hang" or "drop"."""

    def answer(peer: Peer, _request: Request) -> None:
        peer.start_chunks()
        for event in events:
            peer.chunk(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        if then == "hang":
            peer.hang()
        if then == "drop":
            raise Closed
        peer.end_chunks()

    return answer


class Feed:
    """A watch that a test speaks into while it is open. One feed serves one watch after the other."""

    def __init__(self) -> None:
        self._lines: queue.Queue[bytes | str] = queue.Queue()
        self.opened = threading.Semaphore(0)

    def send(self, *events: Any) -> None:
        """All events in one chunk; bytes are sent as they are."""
        encoded = (event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n" for event in events)
        self._lines.put(b"".join(encoded))

    def end(self) -> None:
        self._lines.put("end")

    def drop(self) -> None:
        self._lines.put("drop")

    def wait_opened(self) -> None:
        assert self.opened.acquire(timeout=WAIT), "nobody opened the watch"

    def __call__(self, peer: Peer, _request: Request) -> None:
        peer.start_chunks()
        self.opened.release()
        while not peer.stopped.is_set():
            with suppress(queue.Empty):
                line = self._lines.get(timeout=0.05)
                if line == "drop":
                    raise Closed
                if line == "end":
                    return peer.end_chunks()
                peer.chunk(line)
        raise Closed


@dataclass
class Script:
    answers: list[Answer]
    used: int = 0

    def next(self) -> Answer:
        answer = self.answers[min(self.used, len(self.answers) - 1)]
        self.used += 1
        return answer


@dataclass
class ScriptedServer:
    """Listens on 127.0.0.1 while it is entered. What has no script is answered 404."""

    requests: list[Request] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._scripts: dict[tuple[str, str], Script] = {}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.connections = 0
        self.by_path: dict[str, int] = defaultdict(int)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Answers for one path, the last for ever. A watch has the path with `?watch` at its end."""
        self._scripts[method, path] = Script(list(answers))

    def wait_for(self, condition: Callable[[], bool], what: str = "") -> None:
        """Until the condition holds; it is looked at whenever a request has come, and every 10 ms."""
        with self._changed:
            for _ in range(int(WAIT * 100)):
                if condition():
                    return
                self._changed.wait(0.01)
        raise AssertionError(f"waited in vain: {what or condition}; requests: {self.requests[-20:]}")

    def called(self, method: str, path: str) -> list[Request]:
        return [request for request in list(self.requests) if (request.method, request.path) == (method, path)]

    def __enter__(self) -> ScriptedServer:
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._sockets):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(WAIT)

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._sockets.add(sock)
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock, suppress(Closed, OSError):
            if self.tls is None:
                self._converse(sock)
            else:
                with self.tls.wrap_socket(sock, server_side=True) as wrapped:
                    self._sockets.add(wrapped)
                    self._converse(wrapped)
        self._sockets.discard(sock)

    def _converse(self, sock: socket.socket) -> None:
        peer = Peer(sock, self._stopped)
        with sock.makefile("rb") as reader:
            while (request := self._read(reader)) is not None:
                self._answer_for(request)(peer, request)

    def _read(self, reader: Any) -> Request | None:
        first = reader.readline()
        if not first:
            return None
        method, target, _ = first.decode().split(" ", 2)
        headers = {}
        while (line := reader.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", "0")))
        url = urlsplit(target)
        return Request(method, url.path, dict(parse_qsl(url.query)), headers, body)

    def _answer_for(self, request: Request) -> Answer:
        path = request.path + ("?watch" if request.query.get("watch") == "true" else "")
        with self._changed:
            self.requests.append(request)
            script = self._scripts.get((request.method, path))
            answer = script.next() if script else status(404, f"no script for {request.method} {path}")
            self._changed.notify_all()
        return answer
