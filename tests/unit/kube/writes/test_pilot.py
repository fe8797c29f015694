"""Who takes the committer's turns: an event loop while there is one that is not held up, a thread otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.kube.writes import pilot
from extender.kube.writes.committer import Committer
from extender.scheduling.commands import BindFinished, Report, WriteBinding
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import WAIT, Peer, Request, ScriptedServer, hang, reply
from tests.support.apiserver.warm_connections import warm
from tests.support.engine.commands import commands
from tests.support.http.loop_thread import LoopThread

BINDING = "/api/v1/namespaces/default/pods/p/binding"
SUCCESS = reply(201, {"kind": "Status", "status": "Success"})


class Reported:
    """What was reported, and the names of the threads that did it."""

    def __init__(self) -> None:
        self.events: list[Report] = []
        self.threads: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, event: Report) -> None:
        with self._changed:
            self.events.append(event)
            self.threads.append(threading.current_thread().name)
            self._changed.notify_all()

    def wait(self, number: int) -> list[Report]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= number, WAIT), self.events
            return self.events


@pytest.fixture
def reported() -> Reported:
    return Reported()


@pytest.fixture
def api(server: ScriptedServer) -> Iterator[ApiServer]:
    api = connect(ClusterSettings(server=server.url))
    warm(server, api, 2)
    yield api
    api.close()


@pytest.fixture
def committer(api: ApiServer, reported: Reported) -> Iterator[Committer[Report]]:
    committer = Committer(api, commands(), most=2, report=reported)
    yield committer
    committer.stop(WAIT)
    assert not any(thread.is_alive() for thread in committer._threads)


@pytest.fixture
def host(committer: Committer[Report]) -> Iterator[LoopThread]:
    with LoopThread() as host:
        host.call(committer.enter_loop, host.loop)
        yield host


def bind(token: int = 1) -> WriteBinding:
    return WriteBinding(token, "default", "p", "uid-p", "n1", ())


def test_a_loop_takes_all_turns_whoever_submits(
    server: ScriptedServer, committer: Committer[Report], reported: Reported, host: LoopThread
) -> None:
    server.on("POST", BINDING, SUCCESS)
    committer.submit(bind(1))
    reported.wait(1)
    host.call(committer.submit, bind(2))
    reported.wait(2)
    assert reported.threads == ["loop"] * 2


def test_a_loop_that_ends_gives_the_turns_back(
    server: ScriptedServer, committer: Committer[Report], reported: Reported, host: LoopThread
) -> None:
    server.on("POST", BINDING, SUCCESS)
    host.end()
    committer.leave_loop()
    committer.submit(bind())
    reported.wait(1)
    assert reported.threads == ["commit"]


def test_what_is_in_flight_when_the_loop_ends_is_reported_by_the_thread(
    server: ScriptedServer, committer: Committer[Report], reported: Reported, host: LoopThread
) -> None:
    answered = threading.Event()

    def later(peer: Peer, request: Request) -> None:
        answered.wait(WAIT)
        SUCCESS(peer, request)

    server.on("POST", BINDING, later)
    committer.submit(bind())
    server.wait_for(lambda: bool(server.called("POST", BINDING)))
    host.end()
    committer.leave_loop()
    answered.set()
    assert reported.wait(1) == [BindFinished(1, Outcome(OutcomeKind.DONE))]


def test_a_loop_keeps_deadlines(
    server: ScriptedServer, api: ApiServer, committer: Committer[Report], reported: Reported, host: LoopThread
) -> None:
    api.timeout = 0.2
    server.on("POST", BINDING, hang())
    committer.submit(bind())
    (event,) = reported.wait(1)
    assert isinstance(event, BindFinished)
    assert (event.outcome.kind, reported.threads) == (OutcomeKind.UNKNOWN, ["loop"])


def test_a_loop_that_is_held_up_holds_up_no_write(
    server: ScriptedServer,
    committer: Committer[Report],
    reported: Reported,
    host: LoopThread,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pilot, "_LOOK", 0.05)
    monkeypatch.setattr(pilot, "_HELD_UP", 0.1)
    server.on("POST", BINDING, SUCCESS)
    release = threading.Event()
    host.loop.call_soon_threadsafe(release.wait, WAIT)
    time.sleep(0.2)
    committer.submit(bind())
    reported.wait(1)
    assert reported.threads == ["commit"]
    release.set()
    committer.submit(bind(2))
    reported.wait(2)
