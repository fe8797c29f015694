"""Every error of the HTTP API of claims has one shape with one code; E2B's API keeps E2B's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from math import ceil
from typing import Any

import pytest

from extender.kube.client.access_review import Reviewer
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import Peer, Request, ScriptedServer, reply
from tests.support.cluster.claim_world import ClaimWorld, claim_world

CLAIM = "/v1/pools/default/warm/claims"
SHAPE = {"error", "field", "code", "retry_after"}


@pytest.fixture(scope="module")
def world() -> Iterator[ClaimWorld]:
    with claim_world(pods=1, e2b={"enabled": True}) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "field"),
    [
        ("POST", CLAIM, "nonsense", 400, "BadRequest", "body"),
        ("POST", CLAIM, '{"count": 0}', 400, "BadRequest", "count"),
        ("POST", CLAIM, '{"count": 100}', 400, "TooManyPods", "count"),
        ("POST", CLAIM, " " * 600_000, 413, "RequestEntityTooLarge", "body"),
        ("POST", CLAIM, '{"count": 2, "wait_seconds": 0}', 429, "NoIdlePod", None),
        ("POST", "/v1/pools/default/none/claims", "{}", 404, "UnknownPool", None),
        ("GET", "/v1/pools/default/none", "", 404, "UnknownPool", None),
        ("GET", "/v1/pools/default/warm/claims?limit=0", "", 400, "BadRequest", "limit"),
        ("GET", "/v1/pools/default/warm/claims?page=2", "", 400, "BadRequest", "page"),
        ("DELETE", f"{CLAIM}?key=never", "", 404, "UnknownClaim", None),
        ("DELETE", CLAIM, "", 400, "BadRequest", "key"),
        ("GET", "/v1/claims/c-none", "", 404, "UnknownClaim", None),
        ("GET", "/v1/claims/c-none?wait=-1", "", 400, "BadRequest", "wait"),
        ("DELETE", "/v1/claims/c-none", "", 404, "UnknownClaim", None),
        ("POST", "/v1/claims/c-none/renew", "{}", 404, "UnknownClaim", None),
        ("POST", "/v1/claims/c-none/renew", '{"lease_seconds": -1}', 400, "BadRequest", "lease_seconds"),
        ("POST", "/v1/claims/c-none/eat", "", 404, "NotFound", None),
        ("PUT", "/v1/claims/c-none", "", 405, "MethodNotAllowed", None),
    ],
)
def test_an_error_has_a_code(
    world: ClaimWorld, method: str, path: str, body: str, status: int, code: str, field: str | None
) -> None:
    answer = world.server.http.request(method, path, content=body)
    said = answer.json()
    assert (answer.status_code, said["code"], said["field"]) == (status, code, field), answer.text
    assert said.keys() == SHAPE
    if status == 429:
        assert answer.headers["Retry-After"] == str(ceil(said["retry_after"]))
    else:
        assert said["retry_after"] is None


def test_openapi_describes_that_shape_for_every_call(world: ClaimWorld) -> None:
    described = world.server.http.get("/openapi.json").json()
    model = described["components"]["schemas"]["ErrorBody"]
    assert model["properties"].keys() == SHAPE
    assert set(model["required"]) == {"error", "code"}
    calls = {
        f"{method} {path}": call["responses"]
        for path, methods in described["paths"].items()
        if path.startswith(("/v1/pools", "/v1/claims"))
        for method, call in methods.items()
    }
    assert len(calls) == 9
    for name, responses in calls.items():
        for status in ("4XX", "5XX"):
            content = responses[status]["content"]["application/json"]
            assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}, name


def token_review(peer: Peer, request: Request) -> None:
    token = request.json["spec"]["token"]
    if token == "unlucky":
        reply(500, {})(peer, request)
        return
    name = {"mine": "ann", "strange": "eve"}.get(token, "")
    reply(201, {"status": {"authenticated": bool(name), "user": {"username": name}}})(peer, request)


def access_review(peer: Peer, request: Request) -> None:
    spec = request.json["spec"]
    allowed = spec["user"] == "ann" and spec["resourceAttributes"]["verb"] != "impersonate"
    reply(201, {"status": {"allowed": allowed}})(peer, request)


@pytest.fixture(scope="module")
def guarded() -> Iterator[ClaimWorld]:
    """A world in which only the token `mine` may claim."""
    with ScriptedServer() as scripted:
        scripted.on("POST", "/apis/authentication.k8s.io/v1/tokenreviews", token_review)
        scripted.on("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", access_review)
        with (
            closing(connect(ClusterSettings(server=scripted.url))) as api,
            claim_world(pods=1, serve=False) as made,
        ):
            made.serve(reviewer=Reviewer(api), authorization="kubernetes", e2b={"enabled": True})
            yield made


@pytest.mark.parametrize(
    ("token", "body", "status", "code", "e2b"),
    [
        ("", {}, 401, "Unauthorized", 401),
        ("invented", {}, 401, "Unauthorized", 401),
        ("strange", {}, 403, "Forbidden", 401),
        ("mine", {"tenant": "other"}, 403, "Forbidden", None),
        ("unlucky", {}, 503, "ServiceUnavailable", 503),
    ],
)
def test_callers_that_may_not_are_told_so_in_the_shape_of_their_api(
    guarded: ClaimWorld, token: str, body: Any, status: int, code: str, e2b: int | None
) -> None:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = guarded.claim(headers=headers, **body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.json().keys() == SHAPE
    assert answer.headers.get("www-authenticate") == ('Bearer realm="waggle"' if status == 401 else None)
    if e2b is not None:
        theirs = guarded.server.http.post("/e2b/sandboxes", json={"templateID": "warm"}, headers={"x-api-key": token})
        assert (theirs.status_code, theirs.json()["code"]) == (e2b, e2b)
        assert theirs.json().keys() == {"code", "message"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/sandboxes", "nonsense", 400),
        ("POST", "/sandboxes", " " * 100_000, 400),
        ("POST", "/sandboxes", '{"templateID": "none"}', 400),
        ("GET", "/v2/sandboxes?limit=0", "", 400),
        ("GET", "/sandboxes/none", "", 404),
        ("POST", "/templates", "{}", 501),
        ("GET", "/nowhere", "", 501),
    ],
)
def test_e2bs_api_keeps_the_shape_of_e2b(world: ClaimWorld, method: str, path: str, body: str, status: int) -> None:
    answer = world.server.http.request(method, f"/e2b{path}", content=body)
    assert (answer.status_code, answer.json()["code"]) == (status, status), answer.text
    assert answer.json().keys() == {"code", "message"}
