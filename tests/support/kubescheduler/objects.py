"""Pods, nodes and extenders for tests of the kube-scheduler stand-in."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from extender.embedded.kubescheduler.config import ExtenderConfig
from extender.embedded.kubescheduler.extenders import Extender, ExtenderError, FilterResult, MetaVictims, Victims
from extender.embedded.kubescheduler.model import SchedNode, SchedPod, decode_node, decode_pod

_versions = count(1)


def pod_json(
    name: str,
    *,
    cpu: str = "100m",
    node: str = "",
    priority: int = 0,
    uid: str = "",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(next(_versions)),
            "labels": dict(labels or {}),
            **(metadata or {}),
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, **(requests or {})}}}],
            "priority": priority,
            **({"nodeName": node} if node else {}),
            **(spec or {}),
        },
        "status": {"phase": "Pending", **(status or {})},
    }


def a_pod(name: str, **given: Any) -> SchedPod:
    return decode_pod(json.dumps(pod_json(name, **given)).encode())


def node_json(
    name: str,
    *,
    cpu: str = "4",
    pods: str = "110",
    more: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    conditions: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": pods, **(more or {})}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(next(_versions)),
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": dict(spec or {}),
        "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": list(conditions)},
    }


def a_node(name: str, **given: Any) -> SchedNode:
    return decode_node(json.dumps(node_json(name, **given)).encode())


class ScriptedExtender(Extender):
    """Answers by functions that tests set, and remembers what it was asked: (verb, pod, node names)."""

    def __init__(self, **config: Any) -> None:
        super().__init__(ExtenderConfig(url_prefix="http://scripted", node_cache_capable=True, **config))
        self.asked: list[tuple[str, str, list[str]]] = []
        self.on_filter: Callable[[SchedPod, list[str]], FilterResult] = lambda pod, names: FilterResult(tuple(names))
        self.on_prioritize: Callable[[list[str]], list[tuple[str, int]]] = lambda names: []
        self.on_preempt: Callable[[Mapping[str, Victims]], dict[str, MetaVictims]] = agree
        self.on_bind: Callable[[SchedPod, str], None] = lambda pod, node: None

    def filter(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> FilterResult:
        names = self._ask("filter", pod, [node.name for node in nodes])
        return self.on_filter(pod, names)

    def prioritize(self, pod: SchedPod, nodes: Sequence[SchedNode]) -> list[tuple[str, int]]:
        return self.on_prioritize(self._ask("prioritize", pod, [node.name for node in nodes]))

    def preempt(self, pod: SchedPod, candidates: Mapping[str, Victims]) -> dict[str, MetaVictims]:
        self._ask("preempt", pod, sorted(candidates))
        return self.on_preempt(candidates)

    def bind(self, pod: SchedPod, node: str) -> None:
        self._ask("bind", pod, [node])
        self.on_bind(pod, node)

    def _ask(self, verb: str, pod: SchedPod, names: list[str]) -> list[str]:
        self.asked.append((verb, pod.key.name, names))
        return names


def agree(candidates: Mapping[str, Victims]) -> dict[str, MetaVictims]:
    """The answer of an extender that agrees to everything."""
    return {n: MetaVictims(tuple(p.uid for p in v.pods), v.pdb_violations) for n, v in candidates.items()}


def refuse(text: str = "busy", *, unresolvable: bool = False) -> Callable[[SchedPod, list[str]], FilterResult]:
    """Refuses all nodes with one text."""

    def answer(pod: SchedPod, names: list[str]) -> FilterResult:
        failed = dict.fromkeys(names, text)
        return FilterResult((), None, *(({}, failed) if unresolvable else (failed, {})))

    return answer


def fail(text: str = "boom") -> Callable[..., Any]:
    """Fails every call."""

    def answer(*_: object) -> Any:
        raise ExtenderError(text)

    return answer


class ScriptedServer:
    """An extender over HTTP on 127.0.0.1: `reply(path, body)` gives the status, the body and more headers.

    A reply of None drops the connection without an answer.
    """

    def __init__(self, reply: Callable[[str, bytes], tuple[int, bytes, Mapping[str, str]] | None]) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, reply))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(
    server: ScriptedServer, reply: Callable[[str, bytes], tuple[int, bytes, Mapping[str, str]] | None]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one write: two would cost 40 ms a call

        def setup(self) -> None:
            server.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.requests.append((self.command, self.path, dict(self.headers.items()), body))
            answer = reply(self.path, body)
            if answer is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            status, content, headers = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    return Handler
