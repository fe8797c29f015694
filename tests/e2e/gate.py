"""What stands between kube-scheduler and its extender: writes down every call, and plays a bad network.

    with Gate(waggle.url) as gate:          # kube-scheduler is given gate.url
        gate.calls_of("filter", "a-pod")    # what was asked, when, and what was answered
        gate.play(lambda call: Reply(status=500))   # instead of the extender; None lets the call through
        gate.lose_answers("bind")           # the extender acts, and nobody hears of it

Without a URL it is itself the extender, played by a test: what `play` does not answer, it agrees to.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

#: As long as an extender must: kube-scheduler keeps its connections for 90 s.
_KEEP_ALIVE = 120.0


@dataclass
class Reply:
    """An answer in the extender's place. `drop`: the connection ends without one. `delay` in seconds, before either.

    `location`: where a redirect leads.
    """

    body: Any = None
    status: int = 200
    drop: bool = False
    delay: float = 0.0
    location: str = ""


@dataclass
class Call:
    """One call of kube-scheduler. `answer` is None while it runs, and for ever if nothing was answered."""

    verb: str
    at: float
    request: Any
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    answer: Any = None
    ended: float = 0.0

    @property
    def pod(self) -> str:
        """The name of the pod that it is about."""
        return self.request["PodName"] if self.verb == "bind" else self.request["Pod"]["metadata"]["name"]

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes offered, or of the one to bind to."""
        if self.verb == "bind":
            return [self.request["Node"]]
        if self.verb == "preempt":
            return sorted(self.request["NodeNameToMetaVictims"] or self.request["NodeNameToVictims"] or {})
        if self.request["NodeNames"] is not None:
            return list(self.request["NodeNames"])
        return [node["metadata"]["name"] for node in self.request["Nodes"]["items"]]


Play = Callable[[Call], Reply | None]


class Gate:
    """An HTTP server on 127.0.0.1. `extender` is the URL that calls go to, which may change while it runs."""

    def __init__(self, extender: str = "") -> None:
        self.extender = extender
        #: Told the path of every request.
        self.heard: Callable[[str], object] = len
        self._play: Play = _let_through
        self._lost: frozenset[str] = frozenset()
        self._calls: list[Call] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # -- what was said ----------------------------------------------------------------------------------------------

    @property
    def calls(self) -> list[Call]:
        with self._lock:
            return list(self._calls)

    def calls_of(self, verb: str, *pods: str) -> list[Call]:
        """Calls of one verb, about any of `pods` if some are named."""
        return [call for call in self.calls if call.verb == verb and (not pods or call.pod in pods)]

    def forget(self) -> None:
        """Forget all calls, and be a good network again."""
        with self._lock:
            self._calls.clear()
        self._play, self._lost = _let_through, frozenset()

    # -- what is done to it -----------------------------------------------------------------------------------------

    def play(self, play: Play) -> None:
        """From now on each call is answered by `play`, or goes through where that returns None."""
        self._play = play

    def lose_answers(self, *verbs: str) -> None:
        """Calls of these verbs reach the extender, and its answers nobody."""
        self._lost = frozenset(verbs)

    # -- serving ----------------------------------------------------------------------------------------------------

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, str] | None:
        """Status, body and location for one request; None drops the connection."""
        self.heard(path)
        verb = path.strip("/").rpartition("/")[2]
        call = Call(verb, time.monotonic(), json.loads(body), body, headers)
        with self._lock:
            self._calls.append(call)
        try:
            reply = self._play(call)
            if reply is not None:
                return _spoken(reply, call)
            if not self.extender:
                call.answer = _agree(call)
                return 200, json.dumps(call.answer).encode(), ""
            status, said = _forward(self.extender, path, body)
            if verb in self._lost:
                return None
            with suppress(ValueError):
                call.answer = json.loads(said)
            return status, said, ""
        finally:
            call.ended = time.monotonic()


def _let_through(_call: Call) -> Reply | None:
    return None


def _spoken(reply: Reply, call: Call) -> tuple[int, bytes, str] | None:
    time.sleep(reply.delay)
    if reply.drop:
        return None
    call.answer = reply.body
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    return reply.status, body, reply.location


def _forward(url: str, path: str, body: bytes) -> tuple[int, bytes]:
    target = urlsplit(url)
    connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=_KEEP_ALIVE)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _agree(call: Call) -> Any:
    """The answer of an extender that has no opinion. Its binds are lies unless a test plays them."""
    match call.verb:
        case "filter":
            return {"NodeNames": call.request["NodeNames"], "Nodes": call.request["Nodes"]}
        case "prioritize":
            return [{"Host": name, "Score": 0} for name in call.nodes]
        case "preempt":
            return {"NodeNameToMetaVictims": call.request["NodeNameToMetaVictims"]}
        case _:
            return {"Error": ""}


def refuse(call: Call, text: str = "busy", *, only: Iterable[str] | None = None) -> Reply:
    """A filter answer that refuses all nodes offered (or those in `only`) with one text, and passes the rest."""
    names = call.nodes
    refused = names if only is None else [name for name in names if name in set(only)]
    passed = [name for name in names if name not in set(refused)]
    return Reply({"NodeNames": passed, "FailedNodes": dict.fromkeys(refused, text)})


def victims(**by_node: str | list[str] | None) -> Reply:
    """A preempt answer: the UIDs of the victims on each node."""
    uids = {node: [each] if isinstance(each, str) else each for node, each in by_node.items()}
    told = {
        node: None if each is None else {"Pods": [{"UID": uid} for uid in each], "NumPDBViolations": 0}
        for node, each in uids.items()
    }
    return Reply({"NodeNameToMetaVictims": told})


def on(verb: str, play: Play) -> Play:
    """`play` for the calls of one verb; the others go through."""
    return lambda call: play(call) if call.verb == verb else None


def _handler(gate: Gate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _KEEP_ALIVE
        wbufsize = -1  # header and body in one write: two would cost 40 ms a call

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                # Not self.path, which has lost a doubled slash at its beginning.
                answer = gate.answer(self.requestline.split()[1], dict(self.headers.items()), body)
            except OSError:  # the extender is down: so is this connection, as it would be without us
                answer = None
            if answer is None:
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            status, content, location = answer
            with suppress(OSError):  # whoever asked may have given up
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if location:
                    self.send_header("Location", location)
                self.end_headers()
                self.wfile.write(content)
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    return Handler
