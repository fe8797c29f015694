"""E2B's key is a bearer token: with it, a caller may do what its user may do, to its own sandboxes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from extender.kube.client.access_review import Reviewer
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import Peer, Request, ScriptedServer, reply
from tests.support.cluster.claim_world import ClaimWorld, claim_world

USERS = {"key-of-ann": "ann", "key-of-bob": "bob", "key-of-cid": "cid"}


def token_review(peer: Peer, request: Request) -> None:
    name = USERS.get(request.json["spec"]["token"], "")
    reply(201, {"status": {"authenticated": bool(name), "user": {"username": name}}})(peer, request)


def access_review(peer: Peer, request: Request) -> None:
    spec = request.json["spec"]
    asked = spec["resourceAttributes"]
    assert (asked["group"], asked["resource"], asked["namespace"]) == ("waggle.dev", "claims", "default")
    allowed = spec["user"] != "cid" and asked["verb"] != "impersonate"
    reply(201, {"status": {"allowed": allowed}})(peer, request)


@pytest.fixture(scope="module")
def world() -> Iterator[ClaimWorld]:
    with ScriptedServer() as scripted:
        scripted.on("POST", "/apis/authentication.k8s.io/v1/tokenreviews", token_review)
        scripted.on("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", access_review)
        with (
            closing(connect(ClusterSettings(server=scripted.url))) as api,
            claim_world(pods=2, mode="recycle", serve=False) as world,
        ):
            world.serve(reviewer=Reviewer(api), authorization="kubernetes", e2b={"enabled": True})
            yield world


def call(world: ClaimWorld, method: str, path: str, key: str) -> httpx.Response:
    body = {"templateID": "warm", "timeout": 100, "duration": 100} if method == "POST" else None
    headers = {"x-api-key": key} if key else {}
    return world.server.http.request(method, f"/e2b{path}", json=body, headers=headers)


@pytest.mark.parametrize("key", ["", "e2b_invented", "key-of-cid"])
def test_without_a_key_that_may_claim_there_is_nothing(world: ClaimWorld, key: str) -> None:
    for method, path in [("POST", "/v2/sandboxes"), ("GET", "/v2/sandboxes")]:
        answer = call(world, method, path, key)
        assert (answer.status_code, answer.json()["code"]) == (401, 401), answer.text


def test_each_user_has_its_own_sandboxes(world: ClaimWorld) -> None:
    mine = call(world, "POST", "/v2/sandboxes", "key-of-ann").json()["sandboxID"]
    assert world.server.claims.runtime.look(lambda engine, _: engine.state.claims[mine].tenant) == "ann"
    for method, path in [("GET", ""), ("POST", "/timeout"), ("POST", "/connect"), ("DELETE", "")]:
        assert call(world, method, f"/sandboxes/{mine}{path}", "key-of-bob").status_code == 404
    assert call(world, "GET", "/sandboxes", "key-of-bob").json() == []
    assert [each["sandboxID"] for each in call(world, "GET", "/sandboxes", "key-of-ann").json()] == [mine]
    assert call(world, "POST", f"/sandboxes/{mine}/refreshes", "key-of-ann").status_code == 204
    assert call(world, "DELETE", f"/sandboxes/{mine}", "key-of-ann").status_code == 204
