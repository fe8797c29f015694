"""The caller: HTTP over connections that stay open, as kube-scheduler's are, with as little of its own as can be."""

from __future__ import annotations

import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from tests.bench.world import binding

#: Connections that binds are posted on; kube-scheduler binds beside its loop.
_BINDERS = 4
#: Bytes of an answer that are received without more memory.
_BUFFER = 512 * 1024


class Process:
    """One of the bench's servers: `python -m MODULE ARGUMENT...`, up when it has said "ready URL"."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            self._end()
            raise RuntimeError(f"{module} did not start")
        self.url = line.removeprefix("ready ").strip()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _end(self) -> None:
        self._process.communicate(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


class Connection:
    """One kept-alive connection. Header and body go out in one write. Answers are received into a buffer that stays:
    new memory for each would take longer than to receive it."""

    def __init__(self, url: str) -> None:
        self._socket = socket.create_connection((urlsplit(url).hostname or "", urlsplit(url).port or 0), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._asked = ""
        self._bytes = bytearray(_BUFFER)
        self._buffer = memoryview(self._bytes)

    def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The answer's body. Raises RuntimeError if the status is neither 200 nor 201."""
        self.ask(method, path, body)
        return self.answer()

    def fileno(self) -> int:
        return self._socket.fileno()

    def ask(self, method: str, path: str, body: bytes = b"") -> None:
        """Send a request. Its `answer` must be read before the next one is sent."""
        self._asked = f"{method} {path}"
        head = b"%s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        parts = [head % (self._asked.encode(), len(body)), body]
        sent = self._socket.sendmsg(parts)
        if sent < len(parts[0]) + len(body):
            self._socket.sendall(b"".join(parts)[sent:])

    def answer(self) -> bytes:
        """Wait for the answer to what was asked, and return its body. Raises RuntimeError as `call` does."""
        got, end = 0, -1
        while end < 0:
            got += self._more(self._buffer[got:])
            end = self._bytes.find(b"\r\n\r\n", 0, got)
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        length = sum(int(line[15:]) for line in lines if line[:15].lower() == b"content-length:")
        whole = end + 4 + length
        if whole > len(self._bytes):
            self._grow(whole)
        while got < whole:
            got += self._more(self._buffer[got:whole])
        answer = bytes(self._buffer[end + 4 : whole])
        if first[9:12] not in (b"200", b"201"):
            raise RuntimeError(f"{self._asked}: {first.decode()}: {answer[:300].decode()}")
        return answer

    def _more(self, into: memoryview) -> int:
        received = self._socket.recv_into(into)
        if not received:
            raise RuntimeError("the server closed the connection")
        return received

    def _grow(self, size: int) -> None:
        grown = bytearray(size)
        grown[: len(self._bytes)] = self._bytes
        self._bytes, self._buffer = grown, memoryview(grown)

    def close(self) -> None:
        self._socket.close()


class Binders:
    """Binds beside the measured calls, on connections of their own. `wait` raises what went wrong in any of them."""

    def __init__(self, url: str, connections: int = _BINDERS) -> None:
        self._queue: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._given = 0
        self._done = threading.Semaphore(0)
        self._failure: Exception | None = None
        self._threads = [threading.Thread(target=self._work, args=(url,), daemon=True) for _ in range(connections)]
        for thread in self._threads:
            thread.start()

    def bind(self, name: str, node: str) -> None:
        self._given += 1
        self._queue.put((name, node))

    def wait(self) -> None:
        """Until every bind is answered."""
        for _ in range(self._given):
            self._done.acquire()
        self._given = 0
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, url: str) -> None:
        connection = Connection(url)
        while (each := self._queue.get()) is not None:
            try:
                expect_no_error(connection.call("POST", "/bind", binding(*each)))
            except Exception as error:
                self._failure = error
            self._done.release()
        connection.close()


class Decider:
    """Filter after filter, each bind beside the next filters, all of it on one thread: threads that wake each other for
    every answer would take more of the cores that are shared with the extender than the calls themselves do."""

    def __init__(self, url: str, connections: int = _BINDERS) -> None:
        self._caller = Connection(url)
        self._idle = [Connection(url) for _ in range(connections)]
        self._busy: dict[int, Connection] = {}
        self._unbound: deque[bytes] = deque()
        self._poll = select.epoll()
        for connection in (self._caller, *self._idle):
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def decide(self, names: list[str], bodies: list[bytes]) -> None:
        """Have each pod filtered with its body, and bound; returns when all are. Raises what goes wrong."""
        waiting = deque(zip(names, bodies, strict=True))
        asked = self._next(waiting)
        while asked or self._busy or self._unbound:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._caller.fileno():
                    connection = self._busy.pop(descriptor)
                    expect_no_error(connection.answer())
                    self._idle.append(connection)
                    continue
                node, name = proposed(self._caller.answer()), asked
                asked = self._next(waiting)
                self._unbound.append(binding(name, node))
            while self._unbound and self._idle:
                connection = self._idle.pop()
                connection.ask("POST", "/bind", self._unbound.popleft())
                self._busy[connection.fileno()] = connection

    def _next(self, waiting: deque[tuple[str, bytes]]) -> str:
        """Send the next filter; return its pod, "" if there is none left."""
        if not waiting:
            return ""
        name, body = waiting.popleft()
        self._caller.ask("POST", "/filter", body)
        return name

    def close(self) -> None:
        self._poll.close()
        for connection in (self._caller, *self._idle, *self._busy.values()):
            connection.close()


class Cluster:
    """What the bench tells its API server to do, and when the extender has seen it."""

    def __init__(self, url: str, extender: str) -> None:
        self._connection = Connection(url)
        self._extender = Connection(extender)

    def make(self, names: list[str]) -> None:
        """These pods wait."""
        self._connection.call("POST", "/bench/pods", msgspec.json.encode(names))

    def clear(self) -> None:
        """All of them are gone; returns when the extender has no proposal left that is not confirmed."""
        give_up = time.monotonic() + 60
        while self._gauge('waggle_cache_size{type="assumed_pods"}') > 0:
            if time.monotonic() > give_up:
                raise RuntimeError("bindings are not confirmed")
            time.sleep(0.02)
        self._connection.call("DELETE", "/bench/pods")
        time.sleep(0.1)

    def churn(self, rate: int) -> int:
        """That many events a second from now on. Returns how many there were so far."""
        return int(self._connection.call("POST", "/bench/churn", b"%d" % rate))

    def _gauge(self, name: str) -> float:
        lines = self._extender.call("GET", "/metrics").decode().splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    def close(self) -> None:
        self._connection.close()
        self._extender.close()


def expect_no_error(answer: bytes) -> None:
    """Every verb's answer has an Error, empty if all is well."""
    if b'"Error":""' not in answer[-12:]:
        raise RuntimeError(f"the extender answered {answer[-500:].decode()}")


def proposed(answer: bytes) -> str:
    """The node that a filter answer names. Raises RuntimeError if it is not exactly one."""
    found: dict[str, Any] = msgspec.json.decode(answer)
    names = found["NodeNames"] or [item["metadata"]["name"] for item in (found["Nodes"] or {"items": []})["items"]]
    if len(names) != 1 or found["Error"]:
        raise RuntimeError(f"no single node was proposed: {answer[:500].decode()}")
    return str(names[0])
