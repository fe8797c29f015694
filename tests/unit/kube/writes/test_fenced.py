"""The fence: what is written in a term leaves only while that term lasts, up to the very last moment before sending."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from algorithm.model import PodKey
from algorithm.reasons import Code, reason
from extender.core.outcomes import OutcomeKind
from extender.kube.client.api import ApiServer, Unreachable
from extender.kube.client.api import Request as ApiRequest
from extender.kube.client.transport import Endpoint
from extender.kube.writes.committer import Committer
from extender.scheduling.commands import BindFinished, Evict, PodRead, ReadPod, RecordEvent, RequeuePod, WriteBinding
from extender.scheduling.events import Event
from tests.support.apiserver.api import eventually
from tests.support.apiserver.kube_objects import pod
from tests.support.apiserver.scripted_server import Peer, Request, ScriptedServer, hang, reply, status
from tests.support.apiserver.warm_connections import warm
from tests.support.engine.commands import commands

POD = "/api/v1/namespaces/default/pods/p"
WRITE = WriteBinding(1, "default", "p", "uid-p", "n1", term=5)


class Fence:
    def __init__(self) -> None:
        self.seconds = 60.0

    def __call__(self, term: int) -> float:
        return self.seconds if term == 5 else 0.0


@pytest.fixture
def fence() -> Fence:
    return Fence()


@pytest.fixture
def reported() -> list[Event]:
    return []


@pytest.fixture(params=["workers", "pilot"])
def committer(
    request: pytest.FixtureRequest, server: ScriptedServer, api: ApiServer, fence: Fence, reported: list[Event]
) -> Iterator[Committer]:
    if request.param == "pilot":
        warm(server, api, 1)
    made = Committer(api, commands(), most=1, report=reported.append, fence=fence)
    yield made
    made.stop()


def test_a_write_of_the_present_term_is_sent(server: ScriptedServer, committer: Committer, reported: list) -> None:
    server.on("POST", POD + "/binding", reply(201, {"kind": "Status"}))
    committer.submit(WRITE)
    assert eventually(lambda: reported)[0].outcome.kind is OutcomeKind.DONE


@pytest.mark.parametrize(
    "write",
    [
        WriteBinding(1, "default", "p", "uid-p", "n1", term=4),
        Evict(1, "default", "p", "uid-p", PodKey("default", "q"), term=4),
    ],
    ids=["bind", "evict"],
)
def test_a_write_of_another_term_is_reported_and_not_sent(
    server: ScriptedServer, committer: Committer, reported: list, write: WriteBinding | Evict
) -> None:
    committer.submit(write)
    assert eventually(lambda: reported)[0].outcome.kind is OutcomeKind.THROTTLED
    assert server.requests == []


@pytest.mark.parametrize(
    "hint",
    [
        RequeuePod("default", "p", "uid-p", term=4),
        RecordEvent("default", "p", "uid-p", reason(Code.OTHER, detail="x"), term=4),
    ],
    ids=["nudge", "event"],
)
def test_a_hint_of_another_term_is_not_sent(
    server: ScriptedServer, committer: Committer, hint: RequeuePod | RecordEvent
) -> None:
    committer.submit(hint)
    eventually(lambda: committer.stats.hints.failed)
    assert server.requests == []


def test_reads_go_on_without_a_term(server: ScriptedServer, committer: Committer, reported: list, fence: Fence) -> None:
    fence.seconds = 0.0
    server.on("GET", POD, reply(200, {"kind": "Pod", **pod("p")}))
    committer.submit(ReadPod(1, "default", "p", "uid-p"))
    assert isinstance(eventually(lambda: reported)[0], PodRead)
    assert reported[0].outcome.kind is OutcomeKind.DONE


def test_a_write_that_hangs_does_not_wait_longer_than_its_term(
    server: ScriptedServer, committer: Committer, reported: list, fence: Fence
) -> None:
    server.on("POST", POD + "/binding", hang())
    fence.seconds = 0.5
    committer.submit(WRITE)
    (report,) = eventually(lambda: reported, seconds=8)  # 10 s is what calls may take otherwise
    assert isinstance(report, BindFinished)
    assert report.outcome.kind is OutcomeKind.UNKNOWN


def test_a_throttled_write_is_not_tried_again_when_its_term_is_over(
    server: ScriptedServer, committer: Committer, reported: list, fence: Fence
) -> None:
    def refuse(peer: Peer, request: Request) -> None:
        fence.seconds = 0.0
        status(429, "busy")(peer, request)

    server.on("POST", POD + "/binding", refuse)
    committer.submit(WRITE)
    assert eventually(lambda: reported)[0].outcome.kind is OutcomeKind.THROTTLED
    assert len(server.requests) == 1


def test_a_term_that_ends_while_credentials_are_fetched_lets_nothing_out(server: ScriptedServer) -> None:
    """An exec plug-in may take its time: the fence is asked after it, and after the connection stands."""
    lasts = threading.Event()
    lasts.set()

    def slow_credentials() -> str:
        lasts.clear()
        return "Bearer x"

    api = ApiServer(Endpoint("127.0.0.1", urlsplit(server.url).port or 0, authorization=slow_credentials))
    with (
        pytest.raises(Unreachable, match="nothing was sent"),
        api.exchange(ApiRequest("POST", "/x"), may_send=lasts.is_set),
    ):
        pass
    api.close()
    assert server.requests == []
