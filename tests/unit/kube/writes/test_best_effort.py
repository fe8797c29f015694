"""Nudges and Events, against a scripted API server: they may be lost, are never in the way, and not doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from algorithm.reasons import Code, reason
from extender.core.kube_events import COUNTED, CREATED, SUPPRESSED
from extender.kube.client.api import ApiServer
from extender.kube.writes.committer import Committer
from extender.scheduling.commands import RecordEvent, RequeuePod, WriteBinding
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
from tests.support.engine.commands import commands

POD = "/api/v1/namespaces/default/pods/p"
BINDING = POD + "/binding"
EVENTS = "/api/v1/namespaces/default/events"
SUCCESS = reply(201, {"kind": "Status", "status": "Success"})
PATCHED = reply(200, {"kind": "Pod"})


@pytest.fixture
def committer(api: ApiServer) -> Iterator[Committer]:
    made = Committer(api, commands(), most=1, report=lambda _: None)
    yield made
    made.stop(WAIT)
    assert not any(thread.is_alive() for thread in made._threads)


def say(text: str = "no room", name: str = "p") -> RecordEvent:
    return RecordEvent("default", name, f"uid-{name}", reason(Code.OTHER, detail=text))


def events_of(server: ScriptedServer) -> Callable[..., None]:
    """The API server keeps Events: the paths of those that are made can be patched. Answers scripted for POST."""

    def keep(*answers: Answer, patches: tuple[Answer, ...] = (PATCHED,)) -> None:
        def first(peer: Peer, request: Request) -> None:
            server.on("PATCH", f"{EVENTS}/{request.json['metadata']['name']}", *patches)
            answers[0](peer, request)

        server.on("POST", EVENTS, first, *answers[1:])

    return keep


def tell(server: ScriptedServer, committer: Committer, *texts: str) -> None:
    """One after the other, so that none is merged with one that waits."""
    for text in texts:
        before = handled(committer)
        committer.submit(say(text))
        server.wait_for(lambda before=before: handled(committer) > before)


def handled(committer: Committer) -> int:
    stats = committer.stats.hints
    return stats.done + stats.failed + stats.counts[SUPPRESSED]


def test_a_nudge_changes_its_value_each_time(server: ScriptedServer, committer: Committer) -> None:
    server.on("PATCH", POD, PATCHED)
    for number in range(1, 4):
        committer.submit(RequeuePod("default", "p", "uid-p"))
        server.wait_for(lambda number=number: committer.stats.hints.done == number)
    assert len({request.json["metadata"]["annotations"]["waggle.dev/nudge"] for request in server.requests}) == 3


def test_a_pod_that_waits_for_its_nudge_is_nudged_once(server: ScriptedServer, committer: Committer) -> None:
    release = threading.Event()

    def slow(peer: Peer, request: Request) -> None:
        release.wait(WAIT)
        PATCHED(peer, request)

    server.on("PATCH", POD, slow)
    committer.submit(RequeuePod("default", "p", "uid-p"))
    server.wait_for(lambda: len(server.requests) == 1)
    for _ in range(5):
        committer.submit(RequeuePod("default", "p", "uid-p"))
    release.set()
    server.wait_for(lambda: committer.stats.hints.done == 2)
    assert (committer.stats.hints.merged, len(server.requests)) == (4, 2)


def test_nudges_go_before_events(server: ScriptedServer, committer: Committer) -> None:
    release = threading.Event()

    def slow(peer: Peer, request: Request) -> None:
        release.wait(WAIT)
        SUCCESS(peer, request)

    server.on("POST", EVENTS, slow)
    server.on("PATCH", POD, PATCHED)
    committer.submit(say("a"))
    server.wait_for(lambda: len(server.requests) == 1)
    committer.submit(say("b"))
    committer.submit(RequeuePod("default", "p", "uid-p"))
    release.set()
    server.wait_for(lambda: committer.stats.hints.done == 3)
    assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]


def test_the_same_again_raises_the_count_of_its_event(server: ScriptedServer, committer: Committer) -> None:
    events_of(server)(SUCCESS)
    tell(server, committer, "no room", "no room", "no room")
    assert [(request.method, request.json["count"]) for request in server.requests] == [
        ("POST", 1),
        ("PATCH", 2),
        ("PATCH", 3),
    ]
    counts = committer.stats.hints.counts
    assert (counts[CREATED], counts[COUNTED]) == (1, 2)


def test_another_text_is_another_event(server: ScriptedServer, committer: Committer) -> None:
    server.on("POST", EVENTS, SUCCESS)
    tell(server, committer, "no room", "no node")
    assert [request.json["message"] for request in server.requests] == ["no room", "no node"]


def test_events_that_wait_are_one_with_their_number(server: ScriptedServer, committer: Committer) -> None:
    release = threading.Event()

    def slow(peer: Peer, request: Request) -> None:
        release.wait(WAIT)
        SUCCESS(peer, request)

    server.on("POST", EVENTS, slow)
    committer.submit(say("something else"))
    server.wait_for(lambda: len(server.requests) == 1)
    for _ in range(7):
        committer.submit(say())
    release.set()
    server.wait_for(lambda: committer.stats.hints.done == 2)
    assert server.requests[1].json["count"] == 7


def test_an_event_that_is_gone_is_made_anew_and_goes_on_counting(server: ScriptedServer, committer: Committer) -> None:
    """Events live for an hour."""
    events_of(server)(SUCCESS, patches=(status(404), PATCHED))
    tell(server, committer, "no room", "no room")
    again = server.requests[-1]
    assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]
    assert (again.json["count"], again.json["firstTimestamp"]) == (2, server.requests[0].json["firstTimestamp"])


def test_an_event_that_was_made_although_nobody_said_so_is_found(server: ScriptedServer, committer: Committer) -> None:
    events_of(server)(drop(), status(409, "already exists", "AlreadyExists"))
    tell(server, committer, "no room", "no room")
    assert [request.method for request in server.requests] == ["POST", "POST", "PATCH"]
    assert server.requests[0].json["metadata"]["name"] == server.requests[1].json["metadata"]["name"]
    assert server.requests[2].json["count"] == 2


def test_an_event_that_could_not_be_told_is_told_when_it_happens_again(
    server: ScriptedServer, committer: Committer
) -> None:
    server.on("POST", EVENTS, status(500), SUCCESS)
    tell(server, committer, "no room", "no room")
    assert (committer.stats.hints.failed, committer.stats.hints.done) == (1, 1)
    assert server.requests[-1].json["count"] == 2


def test_a_pod_that_has_too_many_events_gets_no_more(server: ScriptedServer, committer: Committer) -> None:
    events_of(server)(SUCCESS)
    tell(server, committer, *["no room"] * 30)
    assert len(server.requests) == 25
    assert committer.stats.hints.counts[SUPPRESSED] == 5


@pytest.mark.parametrize("hint", [say(), RequeuePod("default", "p", "uid-p")], ids=["event", "nudge"])
def test_a_hint_that_is_throttled_has_another_turn_and_counts_once(
    server: ScriptedServer, committer: Committer, hint: RecordEvent | RequeuePod
) -> None:
    busy = status(429, "busy", Retry_After="0")
    server.on("POST", EVENTS, busy, busy, SUCCESS)
    server.on("PATCH", POD, busy, busy, PATCHED)
    committer.submit(hint)
    server.wait_for(lambda: committer.stats.hints.done == 1)
    assert len(server.requests) == 3
    assert committer.stats.hints.failed == 0
    assert server.requests[-1].json.get("count") in (None, 1)


def test_a_throttled_hint_stops_bindings_too(server: ScriptedServer, committer: Committer) -> None:
    server.on("POST", EVENTS, status(429, "busy", Retry_After="9"))
    committer.submit(say())
    server.wait_for(lambda: committer.queue.throttle.pauses == 1)
    committer.submit(WriteBinding(1, "default", "p", "uid-p", "n1"))
    server.wait_for(lambda: committer.stats.outcomes == {"WriteBinding throttled": 1})
    assert len(server.requests) == 1


def test_hints_never_delay_a_write(server: ScriptedServer, committer: Committer) -> None:
    server.on("POST", EVENTS, hang())
    server.on("POST", BINDING, SUCCESS)
    for number in range(50):
        committer.submit(say(str(number)))
    server.wait_for(lambda: len(server.called("POST", EVENTS)) == 1)
    committer.submit(WriteBinding(1, "default", "p", "uid-p", "n1"))
    server.wait_for(lambda: committer.stats.outcomes == {"WriteBinding done": 1})


def test_a_write_that_hangs_keeps_hints_back_for_a_moment_only(server: ScriptedServer, committer: Committer) -> None:
    server.on("POST", BINDING, hang())
    server.on("POST", EVENTS, SUCCESS)
    for token in range(3):
        committer.submit(WriteBinding(token, "default", "p", "uid-p", "n1"))
    committer.submit(say())
    server.wait_for(lambda: committer.stats.hints.done == 1)
    assert committer.queue.depth == 2
    committer.stop(timeout=0)


def test_too_many_hints_are_dropped_and_counted(server: ScriptedServer, committer: Committer) -> None:
    server.on("POST", EVENTS, hang())
    for number in range(1200):
        committer.submit(say(str(number)))
    assert committer.stats.hints.dropped >= 199


def test_a_bug_in_the_worker_is_survived(
    server: ScriptedServer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    server.on("POST", EVENTS, SUCCESS)
    monkeypatch.setattr("extender.scheduling.writes.requeue.request", bug)
    committer.submit(RequeuePod("default", "p", "uid-p"))
    committer.submit(say())
    server.wait_for(lambda: committer.stats.hints.done == 1)
    assert committer.stats.crashes == 1
