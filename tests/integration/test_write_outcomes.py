"""Law 5 as a table: every request that Waggle makes, every way in which it can end, on a socket.

What stands in the table is what the engine (or the counters, where nothing is reported) is told; `sent` is how often
the API server saw the request. A write is never sent twice unless the API server certainly did not carry it out.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from algorithm.model import PodKey
from algorithm.reasons import Code, reason
from extender.kube.client.api import ApiServer, Response
from extender.kube.client.api import Request as ApiRequest
from extender.kube.client.transport import Endpoint, Tls
from extender.kube.lease.election import Seen, Write
from extender.kube.lease.elector import LeaseObject, _FailedError, _RefusedError
from extender.kube.writes.committer import Committer
from extender.scheduling.commands import (
    BindFinished,
    Evict,
    EvictFinished,
    PodRead,
    ReadPod,
    RecordEvent,
    RequeuePod,
    WriteBinding,
)
from extender.scheduling.events import Event
from tests.support.apiserver.kube_objects import pod
from tests.support.apiserver.scripted_server import (
    WAIT,
    Answer,
    Peer,
    Request,
    ScriptedServer,
    drop,
    garbage,
    hang,
    reply,
    reset,
    status,
    truncated,
)
from tests.support.engine.commands import commands

POD = "/api/v1/namespaces/default/pods/p"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CERTS = Path(__file__).parents[1] / "support" / "http" / "certs"
WRONG_UID = "Precondition failed: UID in precondition: uid-p, UID in object meta: other"

#: What answers every kind of request well.
WELL = {"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "uid-p", "resourceVersion": "1"}}
HTTP = b"HTTP/1.1 "


def made(head: bytes = b"", body: bytes = json.dumps(WELL).encode()) -> bytes:
    return HTTP + b"201 Created\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def without_end(first: bytes, more: bytes, pause: float = 0.0) -> Answer:
    """Goes on until the client hangs up; `pause` is in seconds."""

    def answer(peer: Peer, _request: Request) -> None:
        peer.send(first)
        while not peer.stopped.wait(pause):
            peer.send(more)

    return answer


#: What one request can meet, beside success. The two with None never reach the server.
FAULTS: dict[str, Answer | None] = {
    "connection refused": None,
    "TLS error": None,
    "closed before an answer": drop(),
    "reset before an answer": reset(),
    # Whether it was carried out before, nobody here can know: that is why it is unknown.
    "time-out": hang(),
    "half a status line": garbage(b"HTTP/1.1 2"),
    "half an answer": truncated(b'{"kind":"Status"'),
    "not HTTP": garbage(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "200 that is not JSON": reply(200, b"<html>please log in</html>"),
    "404": status(404, 'pods "p" not found', "NotFound"),
    "404 of a proxy": reply(404, b"default backend - 404"),
    "409": status(409, "pod p is already assigned to node n2", "Conflict"),
    "409 wrong UID": status(409, WRONG_UID, "Conflict"),
    "410": status(410, "gone", "Gone"),
    "422": status(422, "invalid", "Invalid"),
    "403": status(403, "forbidden", "Forbidden"),
    "429": status(429, "busy", "TooManyRequests"),
    "429 Retry-After": status(429, "busy", "TooManyRequests", Retry_After="9"),
    "500": status(500, "etcdserver: request timed out", "InternalError"),
    "503": status(503, "unavailable", "ServiceUnavailable"),
    "503 Retry-After": status(503, "unavailable", "ServiceUnavailable", Retry_After="9"),
    "504": status(504, "Timeout: request did not complete within 10s", "Timeout"),
    "429 Retry-After 10 years": status(429, "busy", "TooManyRequests", Retry_After="315360000"),
    "429 Retry-After nonsense": status(429, "busy", "TooManyRequests", Retry_After="-" * 5000),
    # An API server that lies, or something in its place (docs/security.md).
    "100 and 103 before": garbage(HTTP + b"100 Continue\r\n\r\n" + HTTP + b"103 Early Hints\r\n\r\n" + made()),
    "101": garbage(HTTP + b"101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + made()),
    "endless 100": without_end(b"", (HTTP + b"100 Continue\r\n\r\n") * 1000),
    "endless head": without_end(HTTP + b"201 Created\r\n", b"A: b\r\n" * 1000),
    "endless body": without_end(HTTP + b"201 Created\r\n\r\n{", b" " * 100_000),
    "promised 2 GB": garbage(HTTP + b"201 Created\r\nContent-Length: 2000000000\r\n\r\n{"),
    "a byte at a time": without_end(HTTP + b"201 Created\r\nContent-Length: 2000\r\n\r\n", b" ", 0.02),
    "two lengths": garbage(made(b"Transfer-Encoding: chunked\r\n")),
    "compressed": reply(201, WELL, Content_Encoding="gzip"),
    "nested deeply": reply(201, b'{"kind":' + b"[" * 100_000),
    "redirect": status(307, "elsewhere", Location="http://127.0.0.1:1/"),
    "409 of 200 KB": status(409, "x" * 200_000, "Conflict"),
}

#: How bindings, evictions and reads end.
REPORTED = {
    "connection refused": "throttled",
    "TLS error": "throttled",
    "closed before an answer": "unknown",
    "reset before an answer": "unknown",
    "time-out": "unknown",
    "half a status line": "unknown",
    "half an answer": "unknown",
    "not HTTP": "unknown",
    "200 that is not JSON": "unknown",
    "404": "gone",
    "404 of a proxy": "unknown",
    "409": "lost",
    "409 wrong UID": "stale",
    "410": "rejected",
    "422": "rejected",
    "403": "rejected",
    "429": "throttled",
    "429 Retry-After": "throttled",
    "500": "unknown",
    "503": "unknown",
    "503 Retry-After": "throttled",
    "504": "unknown",
    "429 Retry-After 10 years": "throttled",
    "429 Retry-After nonsense": "throttled",
    "100 and 103 before": "done",
    "101": "unknown",
    "endless 100": "unknown",
    "endless head": "unknown",
    "endless body": "unknown",
    "promised 2 GB": "unknown",
    "a byte at a time": "unknown",
    "two lengths": "unknown",
    "compressed": "unknown",
    "nested deeply": "unknown",
    "redirect": "rejected",
    "409 of 200 KB": "lost",
}

#: What differs elsewhere. Hints that are certainly not done wait for another turn, others are lost and counted as such.
_AS_HINT = {"throttled": "waits", "done": "done"}
_LOST_HINT = {fault: _AS_HINT.get(outcome, "failed") for fault, outcome in REPORTED.items()}
_LEASE = (
    dict.fromkeys(FAULTS, "failed")
    | dict.fromkeys(("404", "404 of a proxy", "409", "409 wrong UID", "409 of 200 KB"), "look again")
    | {"100 and 103 before": "written"}
)
EXPECTED: dict[str, dict[str, str]] = {
    "bind": REPORTED,
    "evict": REPORTED,
    "read": REPORTED,
    "nudge": _LOST_HINT,
    # An Event that is there already was made by an earlier try; it is counted instead.
    "event": _LOST_HINT | {"409": "done", "409 of 200 KB": "done"},
    # An Event that has gone is made anew.
    "event again": _LOST_HINT | {"404": "done"},
    "lease": _LEASE,
}


@dataclass
class Rig:
    """A committer, the scripted server it talks to, and what it reports."""

    server: ScriptedServer
    api: ApiServer
    reports: list[Event] = field(default_factory=list)
    reported: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.committer = Committer(self.api, commands(), report=self._report, most=2)

    def _report(self, event: Event) -> None:
        self.reports.append(event)
        self.reported.set()

    def reported_by(self, command: WriteBinding | Evict | ReadPod) -> str:
        self.committer.submit(command)
        assert self.reported.wait(WAIT)
        (event,) = self.reports
        assert isinstance(event, BindFinished | EvictFinished | PodRead)
        return str(event.outcome.kind)

    def hinted(self, hint: RequeuePod | RecordEvent) -> str:
        """done, failed, or waits for another turn."""
        before = self._hint_state()
        self.committer.submit(hint)
        self.server.wait_for(lambda: self._hint_state() != before and not self.committer.best_effort.in_flight)
        done, failed, pauses = (now - then for now, then in zip(self._hint_state(), before, strict=True))
        assert done + failed + pauses == 1
        return "done" if done else "failed" if failed else "waits"

    def _hint_state(self) -> tuple[int, int, int]:
        hints = self.committer.best_effort.stats
        return hints.done, hints.failed, self.committer.queue.throttle.pauses


def _bind(rig: Rig, answer: Answer) -> str:
    rig.server.on("POST", POD + "/binding", answer)
    return rig.reported_by(WriteBinding(1, "default", "p", "uid-p", "n1"))


def _evict(rig: Rig, answer: Answer) -> str:
    rig.server.on("POST", POD + "/eviction", answer)
    return rig.reported_by(Evict(1, "default", "p", "uid-p", PodKey("default", "q")))


def _read(rig: Rig, answer: Answer) -> str:
    rig.server.on("GET", POD, answer)
    return rig.reported_by(ReadPod(1, "default", "p", "uid-p"))


def _nudge(rig: Rig, answer: Answer) -> str:
    rig.server.on("PATCH", POD, answer)
    return rig.hinted(RequeuePod("default", "p", "uid-p"))


EVENT = RecordEvent("default", "p", "uid-p", reason(Code.OTHER, detail="no room"))
SUCCESS = reply(201, {"kind": "Status", "status": "Success"})


def _keeps_events(rig: Rig, on_post: Answer, on_patch: Answer) -> None:
    """The path of a patch is known only when the Event's name is."""

    def post(peer: Peer, request: Request) -> None:
        rig.server.on("PATCH", f"{EVENTS}/{request.json['metadata']['name']}", on_patch)
        on_post(peer, request)

    rig.server.on("POST", EVENTS, post)


def _event(rig: Rig, answer: Answer) -> str:
    _keeps_events(rig, answer, SUCCESS)
    return rig.hinted(EVENT)


def _event_again(rig: Rig, answer: Answer) -> str:
    _keeps_events(rig, SUCCESS, answer)
    if rig.server.tls is None and rig.api.endpoint.port != 1:
        assert rig.hinted(EVENT) == "done"
        rig.server.requests.clear()
    return rig.hinted(EVENT)


def _lease(rig: Rig, answer: Answer) -> str:
    def call(method: str, path: str, body: bytes | None) -> Response:
        with rig.api.exchange(ApiRequest(method, path, body=body)) as exchange:
            return exchange.response()

    rig.server.on("POST", LEASES, answer)
    lease = LeaseObject(
        call, namespace="default", name="waggle", identity="a", seconds=10, wall_clock=lambda: datetime.now(UTC)
    )
    try:
        lease.write(Write(Seen(), term=1))
    except _RefusedError:
        return "look again"
    except _FailedError:
        return "failed"
    return "written"


OPERATIONS: dict[str, Callable[[Rig, Answer], str]] = {
    "bind": _bind,
    "evict": _evict,
    "read": _read,
    "nudge": _nudge,
    "event": _event,
    "event again": _event_again,
    "lease": _lease,
}


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Rig]]:
    """A rig for one fault. Where the server does not say for how long, it is long enough to be told at once."""
    monkeypatch.setattr("extender.kube.writes.outcome._RETRY_AFTER", 9.0)
    rigs: list[Rig] = []

    def make_one(fault: str) -> Rig:
        server = ScriptedServer(tls=_tls() if fault == "TLS error" else None)
        server.__enter__()
        port = 1 if fault == "connection refused" else int(server.url.rsplit(":", 1)[1])
        tls = Tls(ca_file=str(CERTS / "ca.pem"), server_name="other.test") if server.tls else None
        rigs.append(Rig(server, ApiServer(Endpoint("127.0.0.1", port, tls=tls), timeout=_patience(fault))))
        return rigs[-1]

    yield make_one
    for rig in rigs:
        rig.committer.stop(WAIT)
        rig.api.close()
        rig.server.__exit__()


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
    return context


def _patience(fault: str) -> float:
    return 0.2 if fault in ("time-out", "a byte at a time") else WAIT


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_request_ends_as_the_table_says(operation: str, fault: str, make: Callable[[str], Rig]) -> None:
    rig, answer = make(fault), FAULTS[fault]
    ended = OPERATIONS[operation](rig, answer or SUCCESS)
    assert ended == EXPECTED[operation][fault]
    writes = [request.method for request in rig.server.requests]
    again = ended == "done" and operation.startswith("event") and fault != "100 and 103 before"
    assert len(writes) == (0 if answer is None else 2 if again else 1), writes
    assert rig.committer.stats.crashes == 0


@pytest.mark.parametrize("fault", ["429", "429 Retry-After", "503 Retry-After", "connection refused"])
@pytest.mark.parametrize("operation", ["bind", "evict", "read", "nudge", "event"])
def test_whatever_meets_a_busy_server_everything_else_waits(
    operation: str, fault: str, make: Callable[[str], Rig]
) -> None:
    rig = make(fault)
    OPERATIONS[operation](rig, FAULTS[fault] or SUCCESS)
    sent = len(rig.server.requests)
    rig.reported.clear()
    rig.reports.clear()
    assert rig.reported_by(WriteBinding(2, "default", "other", "u", "n1")) == "throttled"
    assert len(rig.server.requests) == sent


def test_a_budget_that_refuses_one_eviction_makes_nobody_wait(make: Callable[[str], Rig]) -> None:
    rig = make("429")
    causes: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}]}
    refused = reply(429, {"kind": "Status", "message": "Cannot evict pod", "details": causes}, Retry_After="10")
    assert _evict(rig, refused) == "rejected"
    assert rig.committer.queue.throttle.pauses == 0


def test_a_pod_with_another_uid_is_read_as_it_is(make: Callable[[str], Rig]) -> None:
    """Whose pod it is, is for the engine to see."""
    rig = make("")
    assert _read(rig, reply(200, {"kind": "Pod", **pod("p", uid="uid-of-another")})) == "done"
    (read,) = rig.reports
    assert isinstance(read, PodRead)
    assert read.pod is not None
    assert read.pod.uid == "uid-of-another"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_fault_it_happens_once(operation: str, make: Callable[[str], Rig]) -> None:
    rig = make("")
    made = {
        "read": reply(200, {"kind": "Pod", **pod("p")}),
        "lease": reply(201, {"kind": "Lease", "metadata": {"resourceVersion": "1", "uid": "u"}, "spec": {}}),
    }
    ended = OPERATIONS[operation](rig, made.get(operation, SUCCESS))
    assert ended == ("written" if operation == "lease" else "done")
    assert len(rig.server.requests) == 1
