"""For tests of the web room: a runtime whose answers the test sets, and a client on a real socket.

`FixedRuntime` stands where extender.server.runtime.Runtime stands, so that the face is tested without what is behind
it; the integration tests put the real one there.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Container, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from algorithm.interface import PageNotFound, SuggestedNodes
from algorithm.model import Pod
from extender.kube.informers.podreader import PodReader
from extender.scheduling.events import BindAnswer, Candidate, FilterAnswer, PreemptAnswer
from extender.scheduling.state.cache import Cache, Snapshot
from extender.scheduling.state.preemption_log import PreemptionRecord
from extender.server.rows import PodRow
from extender.server.usage import UsageHistory
from extender.server.views import Explanation, FaultsView, Metric, PodView, Readiness

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"


def capture(name: str) -> bytes:
    """The body of a request as a real kube-scheduler 1.36 sent it."""
    return (CAPTURES / f"{name}.raw").read_bytes()


class FixedRuntime:
    """Gives the answers that a test has put into its attributes, and keeps what it was asked in `asked`."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.reader = PodReader()
        self.filter_answer = FilterAnswer(pass_through=True)
        self.preempt_answer = PreemptAnswer(pass_through=True)
        self.bind_answer: BindAnswer | Exception = BindAnswer(request=1)
        self.bind_future: Future[BindAnswer] | None = None
        self.scores: dict[str, int] = {}
        self.failure: Exception | None = None
        self.ready = Readiness(True, "")
        self.knows = Readiness(True, "")
        self.alive = Readiness(True, "")
        self.pod_views: list[PodView] = []
        self.explanations: dict[tuple[str, str], Explanation] = {}
        self.cache = Cache()
        self.state: dict[str, Any] = {}
        self.faults = FaultsView(0, None, 0.0, ())
        #: The algorithm's own pages, in pieces.
        self.own_pages: dict[str, list[bytes]] = {}
        self.page_failure: Exception | None = None
        self.silent = 0.0
        self.usage = UsageHistory()
        self.pod_rows: list[PodRow] = []
        self.preempted: list[tuple[float, PreemptionRecord]] = []
        self.metrics: list[Metric] = []

    @property
    def model(self) -> FixedRuntime:
        """What people are shown: set here as well."""
        return self

    def _ask(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.failure is not None:
            raise self.failure

    def filter(self, pod: Pod, nodes: SuggestedNodes) -> FilterAnswer:
        self._ask("filter", pod, tuple(nodes))
        return self.filter_answer

    def preempt(self, pod: Pod, candidates: tuple[Candidate, ...]) -> PreemptAnswer:
        self._ask("preempt", pod, candidates)
        return self.preempt_answer

    def bind(self, namespace: str, name: str, uid: str, node: str) -> Future[BindAnswer]:
        self._ask("bind", namespace, name, uid, node)
        if self.bind_future is not None:
            return self.bind_future
        future: Future[BindAnswer] = Future()
        if isinstance(self.bind_answer, Exception):
            future.set_exception(self.bind_answer)
        else:
            future.set_result(self.bind_answer)
        return future

    def prioritize(self, pod: Pod, nodes: SuggestedNodes) -> Mapping[str, int]:
        self._ask("prioritize", pod, tuple(nodes))
        return self.scores

    def fault_sentences(self) -> list[str]:
        return []

    def algorithm_faults(self) -> FaultsView:
        return self.faults

    def readiness(self) -> Readiness:
        return self.ready

    @property
    def serves(self) -> bool:
        return self.ready.ready

    def informed(self) -> Readiness:
        return self.knows

    def liveness(self) -> Readiness:
        return self.alive

    def pods(self, states: Container[str] | None = None) -> list[PodView]:
        self._ask("pods")
        return [view for view in self.pod_views if states is None or view.state in states]

    def rows(self) -> list[PodRow]:
        self._ask("rows")
        return list(self.pod_rows)

    def wall(self) -> float:
        return time.time()

    def api_silence(self) -> float:
        return self.silent

    def preemptions(self) -> list[tuple[float, PreemptionRecord]]:
        return self.preempted

    def explain(self, namespace: str, name: str) -> Explanation | None:
        return self.explanations.get((namespace, name))

    def similar_pods(self, namespace: str, name: str) -> list[str]:
        self._ask("similar_pods", namespace, name)
        return [f"{view.namespace}/{view.name}" for view in self.pod_views]

    def cache_snapshot(self) -> Snapshot:
        return self.cache.snapshot()

    def algorithm_state(self) -> Mapping[str, Any]:
        return self.state

    def algorithm_page(self, path: str) -> bytes:
        return b"".join(self.algorithm_pieces(path))

    def algorithm_pieces(self, path: str) -> list[bytes]:
        if self.page_failure is not None:
            raise self.page_failure
        if path not in self.own_pages:
            raise PageNotFound(path)
        return self.own_pages[path]

    def stats(self) -> list[Metric]:
        return self.metrics


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """HTTP requests to a server, each on a connection of its own."""

    def __init__(self, url: str) -> None:
        self.host = urlsplit(url).hostname or ""
        self.port = urlsplit(url).port or 0
        self.url = url

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: bytes | Any) -> Answer:
        return self.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())

    def request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        with closing(self.connect()) as connection:
            return exchange(connection, method, path, body)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=60)


def exchange(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> Answer:
    """One request and its answer on a connection that stays open."""
    connection.request(method, path, body, {"Content-Type": "application/json"} if body is not None else {})
    response = connection.getresponse()
    return Answer(response.status, dict(response.headers), response.read())
