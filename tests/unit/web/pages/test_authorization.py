"""Who may look at the pages for people, with `inspect_authorization: kubernetes`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from extender.kube.client.access_review import Reviewer
from extender.kube.client.kubeconfig import connect
from extender.server.views import PodView
from extender.settings import ClusterSettings, ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.scripted_server import Peer, Request, ScriptedServer, reply
from tests.support.http.fixed_runtime import Answer, Client, FixedRuntime, capture

SETTINGS = Settings(server=ServerSettings(port=0, inspect_authorization="kubernetes"))
#: Token to user, user to the pages that they may get.
USERS = {"token-of-ann": "ann", "token-of-bob": "bob", "token-of-cid": "cid"}
RIGHTS = {"ann": {"/v1/inspect/pods", "/v1/inspect/nodes", "/v1/explain/ns/p"}, "cid": {"/v1/explain/ns/p"}}
PAGES = ["/v1/inspect/pods", "/v1/inspect/nodes", "/v1/inspect/cache", "/v1/inspect/algorithm", "/v1/explain/ns/p"]


def token_review(peer: Peer, request: Request) -> None:
    name = USERS.get(request.json["spec"]["token"], "")
    reply(201, {"status": {"authenticated": bool(name), "user": {"username": name}}})(peer, request)


def access_review(peer: Peer, request: Request) -> None:
    spec = request.json["spec"]
    allowed = spec["nonResourceAttributes"]["path"] in RIGHTS.get(spec["user"], set())
    reply(201, {"status": {"allowed": allowed}})(peer, request)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Client]:
    with ScriptedServer() as scripted:
        scripted.on("POST", "/apis/authentication.k8s.io/v1/tokenreviews", token_review)
        scripted.on("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", access_review)
        with closing(connect(ClusterSettings(server=scripted.url))) as api:
            runtime = FixedRuntime()
            runtime.pod_views = [PodView("ns", "secret", "u", "Bound")]
            app = create_app(runtime, SETTINGS, reviewer=Reviewer(api))
            with serve_in_thread(app, SETTINGS) as server:
                yield Client(server.url)


def get(client: Client, path: str, authorization: str = "") -> Answer:
    with closing(client.connect()) as connection:
        connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        response = connection.getresponse()
        return Answer(response.status, dict(response.headers), response.read())


@pytest.mark.parametrize("path", PAGES)
def test_nobody_looks_without_a_token(guarded: Client, path: str):
    answer = get(guarded, path)

    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="waggle"'
    assert answer.json["error"].startswith(f"{path}: needs the header Authorization: Bearer TOKEN")


@pytest.mark.parametrize("authorization", ["Bearer invented", "Basic YW5uOnB3", "Bearer", "token-of-ann"])
def test_a_token_that_is_none_is_401(guarded: Client, authorization: str):
    assert get(guarded, PAGES[0], authorization).status == 401


@pytest.mark.parametrize("path", PAGES)
def test_who_has_no_right_is_403(guarded: Client, path: str):
    answer = get(guarded, path, "Bearer token-of-bob")

    assert answer.status == 403
    assert f"bob may not get the non-resource URL {path}" in answer.json["error"]


def test_who_has_the_right_looks(guarded: Client):
    assert get(guarded, "/v1/inspect/pods?state=Waiting", "bearer token-of-ann").json == {"items": []}
    assert get(guarded, "/v1/explain/ns/p", "Bearer token-of-ann").status == 404
    assert get(guarded, "/v1/inspect/cache", "Bearer token-of-ann").status == 403


def test_names_of_other_pods_are_for_those_who_may_list_them(guarded: Client):
    """Ann may list pods. Cid may get /v1/explain alone: a wrong name must not tell him a right one."""
    assert "Did you mean ns/secret?" in get(guarded, "/v1/explain/ns/p", "Bearer token-of-ann").json["error"]
    told = get(guarded, "/v1/explain/ns/p", "Bearer token-of-cid")
    assert (told.status, "secret" in told.text) == (404, False)


def test_a_path_written_otherwise_is_the_same_page(guarded: Client):
    assert get(guarded, "//v1//inspect/pods/", "Bearer token-of-ann").status == 200
    assert get(guarded, "//v1/inspect/cache/", "Bearer token-of-ann").status == 403


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/", "/openapi.json"])
def test_probes_and_numbers_need_no_token(guarded: Client, path: str):
    assert get(guarded, path).status == 200


def test_the_verbs_need_no_token(guarded: Client):
    assert guarded.post("/filter", capture("filter-nodenames")).status == 200


def test_without_anybody_to_ask_nobody_looks():
    with serve_in_thread(create_app(FixedRuntime(), SETTINGS), SETTINGS) as server:
        answer = get(Client(server.url), PAGES[0], "Bearer token-of-ann")

    assert answer.status == 503
    assert "nobody to ask" in answer.json["error"]


def test_by_default_nothing_is_asked():
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(FixedRuntime(), settings), settings) as server:
        assert get(Client(server.url), PAGES[0]).status == 200
