"""Who may ask for plans, with `inspect_authorization: kubernetes`: the right to look is not enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from extender.kube.client.access_review import Reviewer
from extender.kube.client.kubeconfig import connect
from extender.server.plans.child import Child
from extender.server.plans.frames import Answer
from extender.settings import ClusterSettings, ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.scripted_server import Peer, Request, ScriptedServer, reply
from tests.support.http.fixed_runtime import Client, FixedRuntime

SETTINGS = Settings(server=ServerSettings(port=0, inspect_authorization="kubernetes"))
#: User to what it may do.
RIGHTS = {"ann": {("post", "/v1/plan")}, "bob": {("get", "/v1/plan"), ("get", "/v1/inspect/pods")}}


class FixedPlans:
    """Answers each request with the same plan, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bool, str]] = []
        self.answer = Answer(outcome="clean", media="application/json", body=b'{"plan":{}}')

    def plan(self, body: bytes, *, is_yaml: bool = False, format_: str = "", child: Child | None = None) -> Answer:
        assert child is not None
        self.asked.append((body, is_yaml, format_))
        return self.answer

    def metrics(self) -> list[object]:
        return []


def token_review(peer: Peer, request: Request) -> None:
    name = request.json["spec"]["token"]
    status = {"authenticated": name in ("ann", "bob"), "user": {"username": name}}
    reply(201, {"status": status})(peer, request)


def access_review(peer: Peer, request: Request) -> None:
    spec = request.json["spec"]
    asked = spec["nonResourceAttributes"]
    allowed = (asked["verb"], asked["path"]) in RIGHTS[spec["user"]]
    reply(201, {"status": {"allowed": allowed}})(peer, request)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Client, FixedPlans]]:
    with ScriptedServer() as scripted:
        scripted.on("POST", "/apis/authentication.k8s.io/v1/tokenreviews", token_review)
        scripted.on("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", access_review)
        with closing(connect(ClusterSettings(server=scripted.url))) as api:
            plans = FixedPlans()
            app = create_app(FixedRuntime(), SETTINGS, plans=plans, reviewer=Reviewer(api))  # type: ignore[arg-type]
            with serve_in_thread(app, SETTINGS) as server:
                yield Client(server.url), plans


def ask(client: Client, token: str, path: str = "/v1/plan", **headers: str) -> tuple[int, bytes]:
    with closing(client.connect()) as connection:
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("POST", path, b"{}", sent | {name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    ("token", "status", "said"),
    [
        ("", 401, b"needs the header Authorization"),
        ("mallory", 401, b"does not know this token"),
        ("bob", 403, b"bob may not post the non-resource URL /v1/plan"),
        ("ann", 200, b'{"plan":{}}'),
    ],
)
def test_who_may_ask(served: tuple[Client, FixedPlans], token: str, status: int, said: bytes) -> None:
    client, plans = served
    plans.asked.clear()
    found, body = ask(client, token)
    assert found == status
    assert said in body
    assert len(plans.asked) == (status == 200)


def test_another_sites_page_may_not_ask(served: tuple[Client, FixedPlans]) -> None:
    assert ask(served[0], "ann", Origin="http://evil.example.com")[0] == 403
    assert ask(served[0], "ann", Host="evil.example.com")[0] == 421


def test_the_format_and_the_kind_of_the_body_are_handed_on(served: tuple[Client, FixedPlans]) -> None:
    client, plans = served
    plans.asked.clear()
    ask(client, "ann", "/v1/plan?format=svg", Content_Type="application/yaml; charset=utf-8")
    assert plans.asked == [(b"{}", True, "svg")]


def test_an_error_has_the_shape_of_all_errors(served: tuple[Client, FixedPlans]) -> None:
    client, plans = served
    before = plans.answer
    plans.answer = Answer(outcome="busy", status=503, error="too many", code="Busy")
    try:
        status, body = ask(client, "ann")
    finally:
        plans.answer = before
    assert status == 503
    assert body.strip() == b'{"error":"too many","field":null,"code":"Busy","retry_after":3.0}'


def test_without_anybody_to_ask_nobody_may() -> None:
    app = create_app(FixedRuntime(), SETTINGS, plans=FixedPlans())  # type: ignore[arg-type]
    with serve_in_thread(app, SETTINGS) as server:
        assert ask(Client(server.url), "ann")[0] == 503
