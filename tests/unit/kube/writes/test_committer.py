"""The committer against a scripted API server: every write is reported exactly once, whatever happens to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import NoReturn
from weakref import WeakKeyDictionary

import pytest

from algorithm.model import PodKey
from algorithm.reasons import Code, reason
from extender.core.commands import CommandSet
from extender.core.outcomes import Outcome, OutcomeKind
from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.kube.client.transport import Endpoint
from extender.kube.writes.committer import Committer
from extender.scheduling.commands import (
    BindFinished,
    Evict,
    EvictFinished,
    PodRead,
    ReadPod,
    RecordEvent,
    Report,
    WriteBinding,
)
from extender.scheduling.events import Event
from extender.scheduling.writes import binding, eviction
from extender.settings import ClusterSettings
from tests.support.apiserver.kube_objects import pod
from tests.support.apiserver.scripted_server import (
    WAIT,
    Answer,
    Peer,
    Request,
    ScriptedServer,
    drop,
    hang,
    reply,
    status,
)
from tests.support.apiserver.warm_connections import warm
from tests.support.engine.commands import commands
from tests.support.http.loop_thread import LoopThread

POD = "/api/v1/namespaces/default/pods/p"
BINDING, EVICTION = POD + "/binding", POD + "/eviction"
EVENTS = "/api/v1/namespaces/default/events"
SUCCESS = reply(201, {"kind": "Status", "status": "Success"})
BUDGET = reply(
    429,
    {"kind": "Status", "message": "disruption budget", "details": {"causes": [{"reason": "DisruptionBudget"}]}},
    Retry_After="10",
)


class Reports:
    """What was reported; lets a test wait for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self.raises = False

    def __call__(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()
        if self.raises:
            raise RuntimeError("report failed")

    def wait(self, number: int) -> list[Event]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= number, WAIT), self.events
            return list(self.events)


@pytest.fixture
def reports() -> Reports:
    return Reports()


#: The event loops in which the pilot takes its turns, by the client that it uses.
_loops: WeakKeyDictionary[ApiServer, LoopThread] = WeakKeyDictionary()


@pytest.fixture(params=["workers", "pilot", "pilot in a loop"])
def api(request: pytest.FixtureRequest, server: ScriptedServer) -> Iterator[ApiServer]:
    """The first request of each connection is a worker's, the others are the pilot's: everything holds for both."""
    api = connect(ClusterSettings(server=server.url))
    if request.param != "workers":
        warm(server, api, 4)
    with ExitStack() as opened:
        if request.param == "pilot in a loop":
            _loops[api] = opened.enter_context(LoopThread())
        yield api
    api.close()


@contextmanager
def committing(
    api: ApiServer, reports: Reports, *, most: int = 2, kinds: CommandSet[Report] | None = None
) -> Iterator[Committer[Report]]:
    committer = Committer(api, kinds or commands(), most=most, report=reports)
    try:
        if host := _loops.get(api):
            host.call(committer.enter_loop, host.loop)
        yield committer
    finally:
        committer.stop(WAIT)
        assert not any(thread.is_alive() for thread in committer._threads)


def bind(token: int = 1, name: str = "p") -> WriteBinding:
    return WriteBinding(token, "default", name, f"uid-{name}", "n1", (("a", "b"),))


def outcome(event: Event) -> Outcome:
    assert isinstance(event, BindFinished | PodRead | EvictFinished)
    return event.outcome


def say(text: str = "no room", name: str = "p") -> RecordEvent:
    return RecordEvent("default", name, f"uid-{name}", reason(Code.OTHER, detail=text))


def test_a_binding_that_is_made_is_done(server: ScriptedServer, api: ApiServer, reports: Reports) -> None:
    server.on("POST", BINDING, SUCCESS)
    with committing(api, reports) as committer:
        committer.submit(bind(7))
        assert reports.wait(1) == [BindFinished(7, Outcome(OutcomeKind.DONE))]
    assert server.requests[0].json["target"]["name"] == "n1"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(404, 'pods "p" not found'), OutcomeKind.GONE),
        (status(409, "pod p is already assigned to node n1", "Conflict"), OutcomeKind.LOST),
        (status(409, "Precondition failed: UID in precondition: a, UID in object meta: b"), OutcomeKind.STALE),
        (status(422, "invalid"), OutcomeKind.REJECTED),
        (status(403, "forbidden"), OutcomeKind.REJECTED),
        (status(500, "etcd"), OutcomeKind.UNKNOWN),
        (drop(), OutcomeKind.UNKNOWN),
        (status(429, "busy", Retry_After="9"), OutcomeKind.THROTTLED),
        (status(503, "busy", Retry_After="9"), OutcomeKind.THROTTLED),
    ],
    ids=["404", "409-lost", "409-uid", "422", "403", "500", "applied-then-closed", "429", "503"],
)
def test_a_binding_is_sent_once_and_ends_in_its_outcome(
    server: ScriptedServer, api: ApiServer, reports: Reports, answer: Answer, kind: OutcomeKind
) -> None:
    server.on("POST", BINDING, answer)
    with committing(api, reports) as committer:
        committer.submit(bind())
        assert outcome(reports.wait(1)[0]).kind is kind
    assert len(server.requests) == 1
    assert committer.stats.outcomes == {f"WriteBinding {kind}": 1}


@pytest.mark.parametrize("standing", [False, True])
def test_a_binding_that_times_out_is_unknown(server: ScriptedServer, reports: Reports, standing: bool) -> None:
    api = connect(ClusterSettings(server=server.url, request_timeout_seconds=0.2))
    if standing:
        warm(server, api, 1)
    server.on("POST", BINDING, hang())
    with committing(api, reports) as committer:
        committer.submit(bind())
        assert outcome(reports.wait(1)[0]).kind is OutcomeKind.UNKNOWN
    api.close()


@pytest.mark.parametrize("write", [bind(), Evict(1, "default", "p", "uid-p", PodKey("default", "x"))])
def test_a_write_that_waited_too_long_is_not_sent(
    server: ScriptedServer, api: ApiServer, reports: Reports, write: WriteBinding | Evict
) -> None:
    """Its place may be somebody else's by now."""
    main = threading.main_thread()
    late = write.valid_for + 0.1
    clock = lambda: 0.0 if threading.current_thread() is main else late  # noqa: E731
    committer = Committer(api, commands(), most=1, report=reports, clock=clock)
    try:
        committer.submit(write)
        assert outcome(reports.wait(1)[0]).kind is OutcomeKind.THROTTLED
        assert server.requests == []
    finally:
        committer.stop(WAIT)


def test_a_throttled_binding_is_tried_again_before_it_is_reported(
    server: ScriptedServer, api: ApiServer, reports: Reports
) -> None:
    server.on("POST", BINDING, status(429, "busy", Retry_After="0"), SUCCESS)
    with committing(api, reports) as committer:
        committer.submit(bind())
        assert outcome(reports.wait(1)[0]).kind is OutcomeKind.DONE
        assert committer.stats.retries == 1


def test_an_unreachable_server_throttles(reports: Reports) -> None:
    api = connect(ClusterSettings(server="http://127.0.0.1:1"))
    committer = Committer(api, commands(), most=1, report=reports, clock=lambda: 10 * time.monotonic())
    committer.submit(bind())
    assert outcome(reports.wait(1)[0]).kind is OutcomeKind.THROTTLED
    committer.stop(WAIT)


def test_a_read_brings_the_pod(server: ScriptedServer, api: ApiServer, reports: Reports) -> None:
    server.on("GET", POD, reply(200, {"kind": "Pod", **pod("p", 9, node="n1")}))
    with committing(api, reports) as committer:
        committer.submit(ReadPod(3, "default", "p", "uid-p"))
        (read,) = reports.wait(1)
    assert isinstance(read, PodRead)
    assert read.pod is not None
    assert (read.token, read.outcome.kind, read.pod.node_name) == (3, OutcomeKind.DONE, "n1")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(404), OutcomeKind.GONE),
        (status(500), OutcomeKind.UNKNOWN),
        (reply(200, b"not json"), OutcomeKind.UNKNOWN),
        (reply(200, {"kind": "Pod"}), OutcomeKind.UNKNOWN),
    ],
    ids=["404", "500", "garbage", "empty"],
)
def test_a_read_without_a_pod_says_why(
    server: ScriptedServer, api: ApiServer, reports: Reports, answer: Answer, kind: OutcomeKind
) -> None:
    server.on("GET", POD, answer)
    with committing(api, reports) as committer:
        committer.submit(ReadPod(3, "default", "p", "uid-p"))
        (read,) = reports.wait(1)
    assert isinstance(read, PodRead)
    assert (read.pod, read.outcome.kind) == (None, kind)


def test_an_eviction_that_a_budget_refuses_is_reported_at_once_and_stops_nobody(
    server: ScriptedServer, api: ApiServer, reports: Reports
) -> None:
    server.on("POST", EVICTION, BUDGET)
    server.on("POST", BINDING, SUCCESS)
    with committing(api, reports) as committer:
        committer.submit(Evict(4, "default", "p", "uid-p", PodKey("default", "q")))
        (finished,) = reports.wait(1)
        assert isinstance(finished, EvictFinished)
        assert finished.outcome.kind is OutcomeKind.REJECTED
        committer.submit(bind())
        assert outcome(reports.wait(2)[1]).kind is OutcomeKind.DONE
        assert (len(server.requests), committer.queue.throttle.pauses, committer.queue.throttle.cuts) == (2, 0, 0)


def test_an_eviction_that_a_busy_server_throttles_is_tried_again(
    server: ScriptedServer, api: ApiServer, reports: Reports
) -> None:
    server.on("POST", EVICTION, status(429, "busy", Retry_After="0"), SUCCESS)
    with committing(api, reports) as committer:
        committer.submit(Evict(4, "default", "p", "uid-p", PodKey("default", "q")))
        assert outcome(reports.wait(1)[0]).kind is OutcomeKind.DONE


def test_while_the_server_asks_for_patience_nothing_is_sent_and_writes_are_told_so(
    server: ScriptedServer, api: ApiServer, reports: Reports
) -> None:
    server.on("POST", BINDING, status(429, "busy", Retry_After="9"))
    with committing(api, reports) as committer:
        committer.submit(bind(1))
        reports.wait(1)
        committer.submit(bind(2, "q"))
        committer.submit(ReadPod(3, "default", "p", "uid-p"))
        kinds = [outcome(event).kind for event in reports.wait(3)]
    assert kinds == [OutcomeKind.THROTTLED] * 3
    assert len(server.requests) == 1


def test_a_short_pause_is_waited_for(server: ScriptedServer, api: ApiServer, reports: Reports) -> None:
    server.on("POST", BINDING, status(429, "busy", Retry_After="1"), SUCCESS)
    server.on("POST", BINDING.replace("/p/", "/q/"), SUCCESS)
    with committing(api, reports) as committer:
        committer.submit(bind(1))
        server.wait_for(lambda: committer.queue.throttle.pauses == 1)
        committer.submit(bind(2, "q"))
        kinds = [outcome(event).kind for event in reports.wait(2)]
    assert kinds == [OutcomeKind.DONE] * 2


def test_writes_go_out_at_the_same_time_but_not_more_than_there_are_workers(
    server: ScriptedServer, api: ApiServer, reports: Reports
) -> None:
    release = threading.Event()

    def wait_and_make(peer: Peer, request: Request) -> None:
        release.wait(WAIT)
        SUCCESS(peer, request)

    for number in range(6):
        server.on("POST", f"/api/v1/namespaces/default/pods/p{number}/binding", wait_and_make)
    with committing(api, reports, most=3) as committer:
        for number in range(6):
            committer.submit(bind(number, f"p{number}"))
        server.wait_for(lambda: len(server.requests) == 3)
        assert committer.queue.depth == 3
        release.set()
        events = reports.wait(6)
    assert sorted(event.token for event in events if isinstance(event, BindFinished)) == list(range(6))


def test_a_bug_in_a_worker_loses_no_report(server: ScriptedServer, api: ApiServer, reports: Reports) -> None:
    def bug(_: WriteBinding) -> NoReturn:
        raise ZeroDivisionError

    server.on("POST", EVICTION, SUCCESS)
    broken = CommandSet([replace(binding.KIND, request=bug), eviction.KIND])
    with committing(api, reports, most=1, kinds=broken) as committer:
        committer.submit(bind())
        committer.submit(Evict(2, "default", "p", "uid-p", PodKey("default", "q")))
        first, second = reports.wait(2)
        assert committer.stats.crashes == 1
    assert (outcome(first).kind, outcome(second).kind) == (OutcomeKind.UNKNOWN, OutcomeKind.DONE)


def test_a_report_that_raises_kills_no_worker(server: ScriptedServer, api: ApiServer, reports: Reports) -> None:
    server.on("POST", BINDING, SUCCESS)
    reports.raises = True
    with committing(api, reports, most=1) as committer:
        committer.submit(bind(1))
        committer.submit(bind(2))
        assert [event.token for event in reports.wait(2) if isinstance(event, BindFinished)] == [1, 2]


def test_stop_reports_what_was_never_sent_as_throttled_and_what_hangs_as_unknown(
    server: ScriptedServer, api: ApiServer, reports: Reports
) -> None:
    server.on("POST", BINDING, hang())
    committer = Committer(api, commands(), most=1, report=reports)
    for token in range(4):
        committer.submit(bind(token))
    committer.submit(say())
    server.wait_for(lambda: len(server.called("POST", BINDING)) == 1)
    committer.stop(timeout=0.1)
    kinds = {event.token: event.outcome.kind for event in reports.wait(4) if isinstance(event, BindFinished)}
    assert kinds == {0: OutcomeKind.UNKNOWN, **dict.fromkeys((1, 2, 3), OutcomeKind.THROTTLED)}
    assert len(reports.events) == 4


def test_stop_lets_what_is_in_flight_end(server: ScriptedServer, api: ApiServer, reports: Reports) -> None:
    arrived, release = threading.Event(), threading.Event()

    def slow(peer: Peer, request: Request) -> None:
        arrived.set()
        release.wait(WAIT)
        SUCCESS(peer, request)

    server.on("POST", BINDING, slow)
    committer = Committer(api, commands(), most=1, report=reports)
    committer.submit(bind())
    assert arrived.wait(WAIT)
    threading.Timer(0.1, release.set).start()
    committer.stop(WAIT)
    assert [outcome(event).kind for event in reports.events] == [OutcomeKind.DONE]


def test_after_stop_nothing_is_accepted(server: ScriptedServer, api: ApiServer, reports: Reports) -> None:
    committer = Committer(api, commands(), most=1, report=reports)
    committer.stop()
    committer.submit(bind())
    committer.submit(say())
    assert committer.stats.refused == 2
    assert (server.requests, reports.events) == ([], [])


def test_a_mixture_of_faults_reports_each_token_exactly_once(
    server: ScriptedServer, api: ApiServer, reports: Reports
) -> None:
    answers: list[Callable[..., None]] = [SUCCESS, status(409), status(500), drop(), status(404), status(422)]
    for number in range(120):
        server.on("POST", f"/api/v1/namespaces/default/pods/p{number}/binding", answers[number % len(answers)])
    with committing(api, reports, most=4) as committer:
        for number in range(120):
            committer.submit(bind(number, f"p{number}"))
        reports.wait(120)
    assert sorted(event.token for event in reports.events if isinstance(event, BindFinished)) == list(range(120))


def test_a_worker_that_cannot_be_interrupted_is_reported_by_stop_and_only_once(
    server: ScriptedServer, api: ApiServer, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.kube.writes.committer._GRACE", 0.05)
    asked, release = threading.Event(), threading.Event()

    def hanging_plugin() -> str:
        asked.set()
        release.wait(WAIT)
        return "Bearer late"

    stuck = ApiServer(Endpoint(api.endpoint.host, api.endpoint.port, authorization=hanging_plugin))
    committer = Committer(stuck, commands(), most=1, report=reports)
    committer.submit(bind())
    assert asked.wait(WAIT)
    committer.stop(timeout=0.05)
    assert [outcome(event).kind for event in reports.events] == [OutcomeKind.UNKNOWN]
    release.set()
    for thread in committer._threads:
        thread.join(WAIT)
    stuck.close()
    assert len(reports.events) == 1
    assert server.requests == []


# -- who makes a request ------------------------------------------------------------------------------------------


def test_over_a_connection_that_stands_the_pilot_makes_it(server: ScriptedServer, reports: Reports) -> None:
    api = connect(ClusterSettings(server=server.url))
    server.on("POST", BINDING, SUCCESS)
    told_by = []
    with committing(api, Reports(), most=3) as committer:
        committer._report = lambda event: (told_by.append(threading.current_thread().name), reports(event))
        for number in range(5):
            committer.submit(bind(number))
            reports.wait(number + 1)
    api.close()
    assert told_by[0].startswith("commit-")
    assert told_by[1:] == ["commit"] * 4
    assert server.connections == 1


def test_credentials_that_take_their_time_hold_up_nobody(server: ScriptedServer, reports: Reports) -> None:
    """They are asked for by a worker, and others go on with those that are at hand."""
    asked, release = threading.Event(), threading.Event()
    fresh = [True]

    def credentials() -> str:
        if not fresh[0]:
            asked.set()
            release.wait(WAIT)
        return "Bearer x"

    endpoint = connect(ClusterSettings(server=server.url)).endpoint
    api = ApiServer(Endpoint(endpoint.host, endpoint.port, authorization=credentials, at_hand=lambda: fresh[0]))
    warm(server, api, 2)
    for name in "pq":
        server.on("POST", BINDING.replace("/p/", f"/{name}/"), SUCCESS)
    with committing(api, reports, most=3) as committer:
        fresh[0] = False
        committer.submit(bind(1, "p"))
        assert asked.wait(WAIT)
        fresh[0] = True
        committer.submit(bind(2, "q"))
        assert [event.token for event in reports.wait(1) if isinstance(event, BindFinished)] == [2]
        release.set()
        reports.wait(2)
    api.close()


def test_a_read_over_a_connection_that_died_is_made_on_a_new_one(server: ScriptedServer, reports: Reports) -> None:
    api = connect(ClusterSettings(server=server.url))
    warm(server, api, 1)
    server.on("GET", POD, drop(), reply(200, {"kind": "Pod", **pod("p", 9, node="n1")}))
    with committing(api, reports) as committer:
        committer.submit(ReadPod(3, "default", "p", "uid-p"))
        assert outcome(reports.wait(1)[0]).kind is OutcomeKind.DONE
    api.close()
    assert len(server.requests) == 2


def test_refused_credentials_are_read_anew_beside_the_pilot(server: ScriptedServer, reports: Reports) -> None:
    told, release = threading.Event(), threading.Event()

    def refused() -> None:
        told.set()
        release.wait(WAIT)

    endpoint = connect(ClusterSettings(server=server.url)).endpoint
    api = ApiServer(Endpoint(endpoint.host, endpoint.port, refused=refused))
    warm(server, api, 1)
    server.on("POST", BINDING, status(401, "Unauthorized"))
    with committing(api, reports) as committer:
        committer.submit(bind())
        assert outcome(reports.wait(1)[0]).kind is OutcomeKind.REJECTED
        assert told.wait(WAIT)
        release.set()
    api.close()


def test_stop_breaks_off_what_the_pilot_waits_for(server: ScriptedServer, reports: Reports) -> None:
    api = connect(ClusterSettings(server=server.url))
    warm(server, api, 2)
    server.on("POST", BINDING, hang())
    committer = Committer(api, commands(), most=2, report=reports)
    committer.submit(bind(1))
    committer.submit(bind(2))
    server.wait_for(lambda: len(server.called("POST", BINDING)) == 2)
    committer.stop(timeout=0.1)
    assert [outcome(event).kind for event in reports.events] == [OutcomeKind.UNKNOWN] * 2
    assert not any(thread.is_alive() for thread in committer._threads)
    api.close()


def test_what_cannot_be_sent_since_the_client_is_closed_was_not_sent(api: ApiServer, reports: Reports) -> None:
    with committing(api, reports) as committer:
        api.close()
        committer.submit(bind(7))
        (event,) = reports.wait(1)
        assert outcome(event).kind is OutcomeKind.THROTTLED
        assert committer.stats.crashes == 0


def test_what_the_pilot_has_in_hand_when_it_stops_is_carried_out(
    server: ScriptedServer, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("POST", BINDING, SUCCESS)
    api = connect(ClusterSettings(server=server.url))
    in_hand, stopping = threading.Event(), threading.Event()

    def none_is_idle() -> None:
        in_hand.set()
        stopping.wait(WAIT)

    with committing(api, reports) as committer:
        monkeypatch.setattr(committer._api, "idle_connection", none_is_idle)
        committer.submit(bind(7))
        assert in_hand.wait(WAIT)
        stop = threading.Thread(target=committer.stop, args=(WAIT,))
        stop.start()
        while not committer.queue._closed:
            time.sleep(0.01)
        time.sleep(0.05)
        stopping.set()
        stop.join(WAIT)
        assert reports.events == [BindFinished(7, Outcome(OutcomeKind.DONE))]
    api.close()
