"""TokenReview and SubjectAccessReview: what is asked, how long it is believed, and that doubt is never a yes."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from extender.embedded.apiserver import serve_in_thread
from extender.kube.client import access_review as reviews
from extender.kube.client.access_review import Reviewer, Verdict
from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import Answer, Peer, Request, ScriptedServer, drop, reply, status
from tests.support.clock import Clock

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
USER = {"username": "ann", "uid": "7", "groups": ["ops"], "extra": {"scopes": ["a"]}}
PAGE = "/v1/inspect/pods"


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def reviewer(api: ApiServer, clock: Clock) -> Reviewer:
    return Reviewer(api, clock=clock)


def known(user: dict[str, Any] = USER) -> Answer:
    return reply(201, {"status": {"authenticated": True, "user": user}})


def access(allowed: bool, **more: Any) -> Answer:
    return reply(201, {"status": {"allowed": allowed, **more}})


def script(server: ScriptedServer, token: Answer, right: Answer) -> None:
    server.on("POST", TOKENS, token)
    server.on("POST", ACCESS, right)


def test_whoever_may_get_the_page_is_allowed(server: ScriptedServer, reviewer: Reviewer):
    script(server, known(), access(True))

    assert reviewer.may_get("t", PAGE).verdict is Verdict.ALLOWED

    (asked,) = server.called("POST", TOKENS)
    assert asked.json == {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}}
    (asked,) = server.called("POST", ACCESS)
    assert asked.json["kind"] == "SubjectAccessReview"
    assert asked.json["spec"] == {
        "user": "ann",
        "uid": "7",
        "groups": ["ops"],
        "extra": {"scopes": ["a"]},
        "nonResourceAttributes": {"verb": "get", "path": PAGE},
    }


def test_no_token_is_refused_without_asking(server: ScriptedServer, reviewer: Reviewer):
    assert reviewer.may_get("", PAGE).verdict is Verdict.UNAUTHENTICATED
    assert server.requests == []


def test_an_unknown_token_is_refused(server: ScriptedServer, reviewer: Reviewer):
    script(server, reply(201, {"status": {"error": "expired"}}), access(True))

    assert reviewer.may_get("t", PAGE).verdict is Verdict.UNAUTHENTICATED
    assert server.called("POST", ACCESS) == []


def test_who_has_no_right_is_told_which(server: ScriptedServer, reviewer: Reviewer):
    script(server, known(), access(False))

    decision = reviewer.may_get("t", PAGE)

    assert decision.verdict is Verdict.FORBIDDEN
    assert decision.text == "ann may not get the non-resource URL /v1/inspect/pods"


def test_an_explicit_no_wins(server: ScriptedServer, reviewer: Reviewer):
    script(server, known(), access(True, denied=True))
    assert reviewer.may_get("t", PAGE).verdict is Verdict.FORBIDDEN


DOUBTS = {
    "refused": status(403, 'cannot create resource "tokenreviews"'),
    "failing": status(500),
    "dropped": drop(),
    "not JSON": reply(201, b"<html>"),
    "of another shape": reply(201, {"status": {"authenticated": "yes", "allowed": "yes"}}),
    "without status": reply(201, {}),
}


@pytest.mark.parametrize("doubt", DOUBTS)
@pytest.mark.parametrize("step", [TOKENS, ACCESS])
def test_doubt_is_never_a_yes(server: ScriptedServer, reviewer: Reviewer, doubt: str, step: str):
    script(server, known(), access(True))
    server.on("POST", step, DOUBTS[doubt], *([known()] if step == TOKENS else [access(True)]))

    decision = reviewer.may_get("t", PAGE)

    assert decision.verdict is Verdict.UNKNOWN
    assert decision.text
    assert reviewer.may_get("t", PAGE).verdict is Verdict.ALLOWED, "doubt is not kept"


def test_an_api_server_that_is_away_is_doubt():
    api = connect(ClusterSettings(server="http://127.0.0.1:1"))
    assert Reviewer(api).may_get("t", PAGE).verdict is Verdict.UNKNOWN
    api.close()


@pytest.mark.parametrize("allowed", [True, False])
def test_an_answer_is_kept_for_some_seconds(server: ScriptedServer, reviewer: Reviewer, clock: Clock, allowed: bool):
    script(server, known(), access(allowed))
    server.on("POST", ACCESS, access(allowed), access(not allowed))
    first = reviewer.may_get("t", PAGE)

    clock.now += reviews.KEPT_SECONDS - 0.1
    assert reviewer.may_get("t", PAGE) == first
    assert len(server.requests) == 2

    clock.now += 0.2
    assert reviewer.may_get("t", PAGE) != first


def test_each_page_and_each_token_is_asked_for_by_itself(server: ScriptedServer, reviewer: Reviewer):
    script(server, known(), access(True))
    for token, page in (("t", PAGE), ("t", "/v1/inspect/nodes"), ("u", PAGE)):
        reviewer.may_get(token, page)

    assert len(server.called("POST", TOKENS)) == 2
    assert len(server.called("POST", ACCESS)) == 3


def test_what_is_kept_is_bounded(server: ScriptedServer, reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reviews, "MOST_KEPT", 3)
    script(server, known(), access(True))
    for page in "abcd":
        reviewer.may_get("t", f"/v1/{page}")
    before = len(server.called("POST", ACCESS))

    reviewer.may_get("t", "/v1/d")
    reviewer.may_get("t", "/v1/a")

    assert len(server.called("POST", ACCESS)) == before + 1


def test_many_at_once_are_not_all_passed_on(server: ScriptedServer, reviewer: Reviewer):
    going_on = threading.Event()

    def slow(peer: Peer, request: Request) -> None:
        going_on.wait(20)
        known()(peer, request)

    script(server, slow, access(True))
    verdicts: list[Verdict] = []
    callers = [
        threading.Thread(target=lambda n=n: verdicts.append(reviewer.may_get(f"t{n}", PAGE).verdict))
        for n in range(reviews.MOST_AT_ONCE)
    ]
    for caller in callers:
        caller.start()
    server.wait_for(lambda: len(server.called("POST", TOKENS)) == reviews.MOST_AT_ONCE)

    assert "too many" in reviewer.may_get("one more", PAGE).text
    going_on.set()
    for caller in callers:
        caller.join()
    assert verdicts == [Verdict.ALLOWED] * reviews.MOST_AT_ONCE


def test_the_embedded_api_server_knows_everybody_and_allows_everything():
    with serve_in_thread() as cluster, closing(connect(ClusterSettings(server=cluster.url))) as api:
        assert Reviewer(api).may_get("anything", PAGE).verdict is Verdict.ALLOWED


def test_a_user_of_many_groups_is_asked_about_each_time_instead_of_being_kept(
    server: ScriptedServer, reviewer: Reviewer
) -> None:
    """A thousand answers are kept: they must be small."""
    script(server, known(USER | {"groups": [f"group-{number}" for number in range(5000)]}), access(True))
    for _ in range(2):
        assert reviewer.may_get("token", PAGE).verdict is Verdict.ALLOWED
    assert len(server.called("POST", TOKENS)) == 2


@pytest.mark.parametrize(
    "body", [b'{"status":' + b"[" * 100_000, b'{"status":{"user":{"username":"%s"}}}' % (b"x" * 300_000)]
)
def test_an_answer_that_is_too_deep_or_too_large_decides_nothing(
    server: ScriptedServer, reviewer: Reviewer, body: bytes
) -> None:
    script(server, reply(201, body), access(True))
    assert reviewer.may_get("token", PAGE).verdict is Verdict.UNKNOWN
