"""An API server that lies: the embedded one behind a proxy that answers some requests by itself.

    python -m tests.attacks.lying_apiserver --parent-pid PID       prints "ready URL"

Requests without a lie are passed on and answered truly. Over HTTP, at the same address:

    POST /lies    {"lie": NAME, "method": "GET", "path": REGEX, "times": N}     tell it to requests of Waggle's
    DELETE /lies  the truth again; connections with a lie under way are closed
    POST /hangup  end Waggle's connections, so that it asks anew
    GET /lies     {"told": how often, "bytes": how many were sent}
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extender.kube.client.answer import Answer, AnswerError
from tests.attacks.servers import api_server

_PIECE = 1 << 18
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Lie\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


def pod(name: str, version: int, labels: int = 10) -> bytes:
    """An ordinary pod that waits, of some 2 KB."""
    told = ",".join(f'"example.com/label-{n}":"value-of-label-{n}"' for n in range(labels))
    return (
        f'{{"metadata":{{"name":"{name}","namespace":"lies","uid":"uid-{name}","resourceVersion":"{version}",'
        f'"labels":{{{told}}},"managedFields":[{{"manager":"{"m" * 1000}"}}]}},"spec":{{"containers":[{{"name":"c",'
        f'"resources":{{"requests":{{"cpu":"1","memory":"1Gi"}}}}}}]}},"status":{{"phase":"Pending"}}}}'
    ).encode()


_PODS = b",".join(pod(f"p{number}", 1) for number in range(100))


def _forever(first: bytes, more: bytes, pause: float = 0.0) -> Iterator[bytes]:
    yield first
    while True:
        time.sleep(pause)
        yield more


def _endless_pages(query: str) -> Iterator[bytes]:
    """Pages of 500 pods that nobody has seen, and always one more."""
    found = re.search(r"continue=(\d+)", query)
    page = int(found[1]) if found else 0
    items = b",".join(pod(f"p{page}-{number}", 1) for number in range(500))
    head = b'{"kind":"PodList","metadata":{"resourceVersion":"9999999","continue":"%d"},"items":[' % (page + 1)
    yield whole(200, head + items + b"]}")


def _flood_of_pods(target: str) -> Iterator[bytes]:
    """A watch with new pods, as fast as they are taken. Their version is one that will be."""
    found = re.search(r"resourceVersion=(\d+)", target)
    version = int(found[1]) + 1 if found else 1
    yield CHUNKED
    for number in itertools.count(0, 100):
        lines = (b'{"type":"ADDED","object":%s}\n' % pod(f"w{each}", version) for each in range(number, number + 100))
        yield chunk(b"".join(lines))


def _hostile_objects(_target: str) -> Iterator[bytes]:
    """Pods of 300,000 labels, and then one nested too deeply for a decoder, with a string of nothing but quotes."""
    labels = b",".join(b'"%x":""' % number for number in range(300_000))
    metadata = b'"name":"p","uid":"u","resourceVersion":"9","labels":{%s}' % labels
    yield CHUNKED
    for _ in range(20):
        yield chunk(b'{"type":"ADDED","object":{"metadata":{%s}}}\n' % metadata)
    yield chunk(b'{"type":"ADDED","object":' + b"[" * 5000 + b'"' + b'\\"' * 500_000 + b"\n")
    yield b"0\r\n\r\n"


def _endless_line(_target: str) -> Iterator[bytes]:
    """8 MiB of line ends, and then no more of them."""
    yield CHUNKED
    for _ in range(32):
        yield chunk(b"\n" * (_PIECE - 100))
    yield from _forever(chunk(b'{"type":"ADDED","object":'), chunk(b" " * (_PIECE - 100)))


def _fixed(first: bytes, more: bytes, pause: float = 0.0) -> Callable[[str], Iterator[bytes]]:
    return lambda _query: _forever(first, more, pause)


#: What each lie sends, for the target of the request. It goes on until the client hangs up.
LIES: dict[str, Callable[[str], Iterator[bytes]]] = {
    "endless 100": _fixed(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4000),
    "endless head": _fixed(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 16_000),
    "endless body": _fixed(CHUNKED, chunk(b" " * (_PIECE - 100))),
    "endless list": _fixed(CHUNKED + chunk(b'{"kind":"PodList","metadata":{},"items":['), chunk(_PODS + b",")),
    "drip": _fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{", b" ", 0.05),
    "410": lambda _query: iter([whole(410, b'{"kind":"Status","code":410,"reason":"Expired"}')]),
    "endless pages": _endless_pages,
    "flood of pods": _flood_of_pods,
    "endless line": _endless_line,
    "hostile objects": _hostile_objects,
    "promise": lambda _query: iter([b"HTTP/1.1 201 Created\r\nContent-Length: 1800000000\r\n\r\n{", b" " * (1 << 24)]),
}


@dataclass
class Told:
    """One lie and the requests that it is told to."""

    lie: str
    method: str
    path: str
    times: int

    def fits(self, method: str, target: str) -> bool:
        return self.times > 0 and self.method == method and re.search(self.path, target) is not None


class Liar:
    """A thread for each connection."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._lies: list[Told] = []
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._told = self._bytes = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def run(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, AnswerError, ValueError), client.makefile("rb") as reader:
            upstream: socket.socket | None = None
            try:
                while (head := _read_head(reader)) is not None:
                    upstream = self._answer(client, reader, head, upstream)
            finally:
                with self._lock:
                    self._clients.discard(client)
                if upstream is not None:
                    upstream.close()

    def _answer(self, client: socket.socket, reader: Any, head: bytes, upstream: Any) -> socket.socket | None:
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        body = reader.read(int(length[1])) if length else b""
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        if target in ("/lies", "/hangup"):
            client.sendall(whole(200, self._order(method, target, body)))
            return None if upstream is None else upstream
        if re.search(rb"(?i)\r\nuser-agent: waggle\r\n", head):
            with self._lock:
                self._clients.add(client)
            if (lie := self._lie_for(method, target)) is not None:
                self._tell(client, lie, target)
                if lie != "410":
                    raise OSError("told")
                return None if upstream is None else upstream
        return self._pass_on(client, head + body, upstream)

    def _pass_on(self, client: socket.socket, request: bytes, upstream: socket.socket | None) -> socket.socket:
        upstream = upstream or socket.create_connection(self._upstream, timeout=700)
        upstream.sendall(request)
        answer = Answer()
        while not answer.complete:
            piece = upstream.recv(_PIECE)
            if not piece:
                answer.end()
                break
            answer.feed(piece)
            client.sendall(piece)
        if not answer.reusable:
            raise OSError("closed")
        return upstream

    def _lie_for(self, method: str, target: str) -> str | None:
        with self._lock:
            for told in self._lies:
                if told.fits(method, target):
                    told.times -= 1
                    self._told += 1
                    return told.lie
        return None

    def _tell(self, client: socket.socket, lie: str, target: str) -> None:
        for piece in LIES[lie](target):
            client.sendall(piece)
            self._bytes += len(piece)

    def _order(self, method: str, target: str, body: bytes) -> bytes:
        if target == "/hangup" or method == "DELETE":
            with self._lock:
                self._lies = [] if method == "DELETE" else self._lies
                clients, self._clients = self._clients, set()
            for client in clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
        elif method == "POST":
            with self._lock:
                self._lies.append(Told(**{"times": 1_000_000, **json.loads(body)}))
        return json.dumps({"told": self._told, "bytes": self._bytes}).encode()


def _read_head(reader: Any) -> bytes | None:
    lines = []
    while (line := reader.readline()) not in (b"\r\n", b""):
        lines.append(line)
    return b"".join(lines) + b"\r\n" if lines else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent-pid", type=int)
    parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    truthful = "extender.embedded.apiserver"
    with tempfile.TemporaryDirectory() as folder, api_server(truthful, Path(folder) / "log") as url:
        host, port = url.removeprefix("http://").split(":")
        liar = Liar((host, int(port)))
        threading.Thread(target=liar.run, daemon=True).start()
        print(f"ready http://127.0.0.1:{liar.listener.getsockname()[1]}", flush=True)
        sys.stdin.read()  # whoever started this has ended
    return 0


if __name__ == "__main__":
    sys.exit(main())
