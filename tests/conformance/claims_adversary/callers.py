"""Programs that claim pods over HTTP, on real sockets: what each one asked for, and what it was answered."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.conformance.claims_adversary.ledger import ASK
from tests.support.http.plain import plain_client

Object = dict[str, Any]


@dataclass
class Ask:
    """One request for pods. `name` is what its pods are to carry; a repetition has the name of the first."""

    name: str
    server: int
    pool: str
    body: Object
    sent: float
    is_async: bool = False
    answered: float = 0.0
    #: 0: there was no answer.
    status: int = 0
    answer: Object = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Why there was no answer.
    error: str = ""
    #: The caller went away by itself, and had no answer by then.
    left: bool = False
    repeats: bool = False

    @property
    def claim(self) -> str:
        return str(self.answer.get("id", ""))

    @property
    def code(self) -> str:
        return str(self.answer.get("code", ""))

    @property
    def count(self) -> int:
        return int(self.body.get("count", 1))

    def __str__(self) -> str:
        body = {key: value for key, value in self.body.items() if key not in ("labels", "annotations")}
        took = f"{self.answered - self.sent:.3f} s" if self.answered else "no answer"
        said = {key: value for key, value in self.answer.items() if value not in (None, "", [])}
        return f"{self.name} at {self.server}, {self.pool} {body}: {self.status} {self.error} {said} in {took}"


class Callers:
    """All that was ever asked. `urls` has the servers' addresses. Callable from any thread."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.http = plain_client(timeout=40, limits=httpx.Limits(max_connections=None, max_keepalive_connections=8))
        self.asks: list[Ask] = []
        #: When somebody first wanted this claim, or the claim with this key (pool, tenant, key), to end.
        self.released: dict[object, float] = {}
        #: When a server first said that it ended this claim, and which one.
        self.ended: dict[str, tuple[float, int]] = {}
        self.lock = threading.Lock()

    def body(self, name: str, **fields: Any) -> Object:
        return {**fields, "labels": {ASK: name}, "annotations": {ASK: name}}

    def new_name(self) -> str:
        with self.lock:
            self._names = getattr(self, "_names", 0) + 1
            return f"ask-{self._names}"

    def claim(
        self,
        server: int,
        pool: str,
        body: Object,
        *,
        prefer: str = "",
        repeats: str = "",
        leave_after: float | None = None,
    ) -> Ask:
        """Send a request, and wait for its answer. `repeats`: the name of the request that this one repeats."""
        name = repeats or self.new_name()
        ask = Ask(name, server, pool, self.body(name, **body), time.monotonic(), bool(prefer), repeats=bool(repeats))
        with self.lock:
            self.asks.append(ask)
        path = f"/v1/pools/default/{pool}/claims"
        if leave_after is not None:
            self._leave(ask, path, leave_after)
            return ask
        try:
            headers = {"prefer": prefer} if prefer else {}
            answer = self.http.post(self.urls[server] + path, json=ask.body, headers=headers)
        except httpx.TransportError as error:
            ask.error = f"{type(error).__name__}: {error}"
        else:
            ask.status, ask.answer, ask.headers = answer.status_code, answer.json(), answer.headers
        ask.answered = time.monotonic()
        return ask

    def _leave(self, ask: Ask, path: str, after: float) -> None:
        """Send the request, and end the connection a moment later. An answer that still comes counts."""
        ask.left = True
        url, content = urlsplit(self.urls[ask.server]), json.dumps(ask.body)
        head = f"POST {path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        try:
            with socket.create_connection((url.hostname or "", url.port or 0), timeout=20) as sock:
                sock.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())
                time.sleep(after)
                sock.shutdown(socket.SHUT_WR)
                said = b"".join(iter(lambda: sock.recv(65536), b""))
        except OSError as error:
            ask.error = f"{type(error).__name__}: {error}"
            said = b""
        ask.answered = time.monotonic()
        if said.startswith(b"HTTP/1.1 "):
            ask.status = int(said[9:12])
            ask.left = ask.status == 499  # it went first
            lines, _, content_ = said.partition(b"\r\n\r\n")
            ask.headers = dict(line.lower().split(": ", 1) for line in lines.decode().split("\r\n")[1:])
            ask.answer = json.loads(content_)

    def call(self, method: str, server: int, path: str, **more: Any) -> httpx.Response | None:
        """Any other call. None: there was no answer."""
        try:
            return self.http.request(method, self.urls[server] + path, **more)
        except httpx.TransportError:
            return None

    def release(self, server: int, claim: str, *, by_delete: bool) -> httpx.Response | None:
        with self.lock:
            self.released.setdefault(claim, time.monotonic())
        path = f"/v1/claims/{claim}"
        answer = self.call("DELETE", server, path) if by_delete else self.call("POST", server, f"{path}/release")
        if answer is not None and answer.status_code == 200:
            with self.lock:
                self.ended.setdefault(claim, (time.monotonic(), server))
        return answer

    def release_key(self, server: int, ask: Ask) -> httpx.Response | None:
        key, tenant = ask.body["key"], ask.body.get("tenant", "")
        with self.lock:
            self.released.setdefault((ask.pool, tenant, key), time.monotonic())
        query = {"key": key, **({"tenant": tenant} if tenant else {})}
        answer = self.call("DELETE", server, f"/v1/pools/default/{ask.pool}/claims", params=query)
        if answer is not None and answer.status_code == 200:
            with self.lock:
                self.ended.setdefault(answer.json()["id"], (time.monotonic(), server))
        return answer

    def released_at(self, ask: Ask) -> float | None:
        """When somebody first wanted the claim of this request to end. Perhaps only a repetition was told its id."""
        keys = [
            *(each.claim for each in list(self.asks) if each.name == ask.name),
            (ask.pool, ask.body.get("tenant", ""), ask.body.get("key", "")),
        ]
        times = [self.released[key] for key in keys if key and key in self.released]
        return min(times) if times else None

    def close(self) -> None:
        self.http.close()
