"""What callers of the HTTP API try: each is answered, costs little, and leaves nothing behind."""

from __future__ import annotations

import gc
import json
import socket
import struct
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from extender.claims.writes.names import CLAIM_ANNOTATION, SANDBOX_ANNOTATION
from extender.kube.client.access_review import Access, Reviewer, Verdict
from extender.web.claims.calls import Queued
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, claim_world

CLAIMS = "/v1/pools/default/warm/claims"
SCALE = "/apis/apps/v1/namespaces/default/deployments/warm/scale"
LATER = {"Prefer": "respond-async"}


@pytest.fixture(scope="module")
def shared() -> Iterator[ClaimWorld]:
    """A world for attacks that change nothing."""
    with claim_world(pods=1, e2b={"enabled": True}) as world:
        yield world


def port_of(world: ClaimWorld) -> int:
    return urlsplit(world.server.handle.url).port or 0


def empty(world: ClaimWorld) -> None:
    world.api.patch(SCALE, {"spec": {"replicas": 0}})
    world.idle(0)


class Rights(Reviewer):
    """Knows one user, `tok`, who has these verbs in the namespace `default`."""

    def __init__(self, *verbs: str) -> None:
        self.verbs = verbs

    def may(self, token: str, verb: str, group: str, resource: str, namespace: str) -> Access:
        if token != "tok":
            return Access(Verdict.UNAUTHENTICATED, "unknown token")
        is_allowed = namespace == "default" and verb in self.verbs
        return Access(Verdict.ALLOWED if is_allowed else Verdict.FORBIDDEN, "not allowed", "user")

    def known(self, token: str, verb: str, group: str, resource: str, namespace: str) -> Access | None:
        return self.may(token, verb, group, resource, namespace)


def test_what_a_refused_request_has_sent_is_not_kept() -> None:
    with claim_world(pods=1) as world:
        before = queued()  # of tests before, if there are any
        for _ in range(20):
            answer = world.claim(headers=LATER, annotations={f"a{each}": "x" * 8000 for each in range(30)})
            assert (answer.status_code, answer.json()["code"]) == (400, "InvalidMetadata")
        gc.collect()
        assert not [each for each in queued() if not any(each is known for known in before)]


def queued() -> list[Queued]:
    return [each for each in gc.get_objects() if isinstance(each, Queued)]


def test_requests_that_wait_hold_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.claims.admission.MOST_BYTES", 100_000)
    large = {"a": "x" * 16_000}
    with claim_world(pods=1) as world:
        empty(world)
        answers = [world.claim(headers=LATER, annotations=large) for _ in range(8)]
        assert [each.status_code for each in answers] == [202] * 6 + [429] * 2, answers[-1].text
        assert answers[-1].json()["code"] == "QueueFull"
        assert world.claim(headers=LATER, annotations={"a": "small"}).status_code == 202
        world.server.http.delete(answers[0].headers["location"])
        assert world.claim(headers=LATER, annotations=large).status_code == 202


def test_a_repeated_request_without_a_connection_has_the_address_of_the_one_claim() -> None:
    with claim_world(pods=1) as world:
        empty(world)
        first, second = world.claim(headers=LATER, key="k"), world.claim(headers=LATER, key="k")
        assert (first.status_code, second.status_code) == (202, 202)
        assert first.headers["location"] == second.headers["location"]
        world.api.patch(SCALE, {"spec": {"replicas": 1}})
        found = world.server.http.get(second.headers["location"], params={"wait": 20}).json()
        assert found["state"] == "claimed", found
        assert world.server.http.delete(second.headers["location"]).json()["state"] == "released"


def test_a_request_without_a_connection_is_cancelled_for_all_that_asked_for_it() -> None:
    with claim_world(pods=1) as world:
        empty(world)
        first, _ = world.claim(headers=LATER, key="k"), world.claim(headers=LATER, key="k")
        address = first.headers["location"]
        cancelled = world.server.http.delete(address)
        assert (cancelled.json()["state"], cancelled.json()["code"]) == ("failed", "Cancelled")
        assert world.server.http.get(address).json()["code"] == "Cancelled"
        assert world.pool()["pending"] == 0


def test_a_mark_that_ends_beyond_all_dates_spoils_no_list() -> None:
    with claim_world(pods=2, e2b={"enabled": True}) as world:
        claim = world.claim(annotations={SANDBOX_ANNOTATION: '{"template":"warm","started":1e300}'}).json()
        (name,) = world.claimed()[claim["id"]]
        path = f"/api/v1/namespaces/default/pods/{name}"
        mark = json.loads(world.api.get(f"pods/{name}").json()["metadata"]["annotations"][CLAIM_ANNOTATION])
        patched = {"metadata": {"annotations": {CLAIM_ANNOTATION: json.dumps({**mark, "expires": 1e300})}}}
        assert world.api.patch(path, patched).status_code == 200
        address = f"/v1/claims/{claim['id']}"
        eventually(lambda: world.server.http.get(address).json()["expires"].startswith("9999-12-31"))
        assert world.server.http.get(CLAIMS).json()["items"][0]["id"] == claim["id"]
        assert world.server.http.get("/e2b/sandboxes").json()[0]["sandboxID"] == claim["id"]
        assert world.server.http.get("/e2b/sandboxes", params={"startedAfter": "0001-01-01"}).status_code in (200, 400)


@pytest.mark.parametrize("field", ["labels", "annotations", "requires", "images", "wrong"])
def test_a_body_of_many_wrong_entries_is_refused_at_once(shared: ClaimWorld, field: str) -> None:
    body = json.dumps({field: {f"a{each}": each for each in range(30_000)}})
    for path in (CLAIMS, "/e2b/sandboxes"):
        began = time.monotonic()
        answer = shared.server.http.post(path, content=body)
        took = time.monotonic() - began
        assert answer.status_code in (400, 413), answer.text[:500]
        assert len(answer.text) < 1000
        assert took < 0.5, f"{path}: {took}"


@pytest.mark.parametrize(
    "body",
    [
        '{"count": true}',
        '{"count": "1"}',
        '{"count": 1.5}',
        '{"count": -1e308}',
        '{"wait_seconds": NaN}',
        '{"wait_seconds": 1e999}',
        '{"lease_seconds": -0.1}',
        '{"key": "\\ud800"}',
        '{"priority": 99999999999999999999999}',
        '{"labels": ' + '{"a":' * 100_000,
        '{"requires": {"a": ["b"]}}',
        "[]",
        "null",
        '"x"',
        "{} {}",
        "\ufeff{}",
    ],
)
def test_nonsense_is_answered_with_400_and_changes_nothing(shared: ClaimWorld, body: str) -> None:
    for path in (CLAIMS, f"{CLAIMS}?", "/v1/claims/c-x/renew"):
        answer = shared.server.http.post(path, content=body.encode())
        assert answer.status_code in (400, 413), (path, answer.text)
        assert answer.json()["error"]
    assert shared.pool()["accepted"] == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/pools/other%2f..%2fdefault/warm/claims", {404, 405}),
        ("POST", "/v1/pools/default%2fwarm%2fclaims%2f..%2fclaims", {404, 405}),
        ("POST", "/v1/pools/default/../default/warm/claims", {404, 405}),
        ("POST", "/v1/pools/default/warm/claims/..", {404, 405}),
        ("POST", "/v1/pools/default/%00/claims", {404}),
        ("POST", "/v1/pools/default/%ff%fe/claims", {400, 404}),
        ("POST", "/v1/pools/%e2%80%ae/warm/claims", {404}),
        ("POST", "/v1/pools/DEFAULT/warm/claims", {404}),
        ("POST", "/v1/pools/default/warm%20/claims", {404}),
        ("POST", "/v1/pools/" + "n" * 5000 + "/warm/claims", {404, 414, 431}),
        ("HEAD", "/v1/pools", {405}),
        ("OPTIONS", "/v1/pools/default/warm/claims", {405}),
        ("PUT", "/v1/pools/default/warm/claims", {405}),
        ("DELETE", "/v1/claims/%2e%2e", {404}),
        ("DELETE", "/v1/claims//", {404, 405}),
        ("POST", "/v1/claims/a/b/release", {404}),
        ("DELETE", "/v1/claims/" + "x" * 60_000, {404, 414, 431}),
        ("GET", "/v1/pools/default/warm/claims?limit=0", {400}),
        ("GET", "/v1/pools/default/warm/claims?limit=100000000000000000000", {400}),
        ("GET", "/v1/claims/c-x?wait=nan", {400}),
        ("GET", "/v1/claims/c-x?wait=-1", {400}),
        ("DELETE", "/v1/pools/default/warm/claims?key=", {400}),
        ("DELETE", "/v1/pools/default/warm/claims", {400}),
    ],
)
def test_odd_paths_and_methods_reach_no_pod(shared: ClaimWorld, method: str, path: str, status: set[int]) -> None:
    with socket.create_connection(("127.0.0.1", port_of(shared))) as raw:
        raw.settimeout(20)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
        raw.sendall(f"{head}{{}}".encode())
        answer = b""
        while chunk := raw.recv(1 << 16):
            answer += chunk
    assert int(answer.split(b" ")[1]) in status, answer[:300]
    assert shared.claimed() == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
)
def test_a_page_in_a_browser_claims_nothing(shared: ClaimWorld, headers: dict[str, str]) -> None:
    answer = shared.claim(headers=headers)
    assert answer.status_code in (403, 421), (headers, answer.status_code)
    assert shared.claimed() == {}


def test_pools_of_other_namespaces_are_named_to_nobody() -> None:
    with claim_world(pods=1, serve=False) as world:
        pools = [
            {"name": "warm", "selector": {"pool": "warm"}},
            {"name": "secret", "namespace": "hidden", "selector": {"a": "b"}},
        ]
        settings = {"authorization": "kubernetes", "e2b": {"enabled": True}, "pools": pools}
        server = world.serve(reviewer=Rights("create"), **settings)
        texts = []
        for token in ("", "bad", "tok"):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            for path in (
                "/v1/pools/default/secret/claims",
                "/v1/pools/hidden/secre/claims",
                "/v1/pools/hidden/secret/claims",
            ):
                texts.append(server.http.post(path, headers=headers))
            for template in ("secre", "hidden/secre", "hidden/secret", "hidde/secret"):
                texts.append(server.http.post("/e2b/sandboxes", headers=headers, json={"templateID": template}))
            for path in (
                "/v1/pools",
                "/v1/pools?namespace=hidden",
                "/v1/pools/hidden/secre",
                "/v1/pools/hidden/secret",
                "/e2b/sandboxes",
            ):
                texts.append(server.http.get(path, headers=headers))
        for answer in texts:
            assert answer.status_code in (400, 401, 403, 404), (answer.request.url, answer.text)
            asked = str(answer.request.url) + answer.request.content.decode()
            assert ("secret" in answer.text) <= ("secret" in asked), (asked, answer.text)


def test_a_key_ends_a_claim_only_for_those_who_may_delete() -> None:
    with claim_world(pods=1, serve=False) as world:
        rights = Rights("create", "list")
        server = world.serve(reviewer=rights, authorization="kubernetes")
        server.http.headers["Authorization"] = "Bearer tok"
        world.idle(1)
        claim = world.claim(key="k")
        assert claim.status_code == 201, claim.text
        assert server.http.delete(CLAIMS, params={"key": "k"}).status_code == 403
        assert server.http.delete(f"/v1/claims/{claim.json()['id']}").status_code == 403
        rights.verbs += ("delete",)
        assert server.http.delete(CLAIMS, params={"key": "k"}).status_code == 200


def test_callers_that_go_away_at_every_moment_leave_nothing_claimed() -> None:
    """Each write takes longer than any caller stays, so no caller has had its answer."""
    with claim_world(pods=3, mode="recycle") as world:
        world.cluster.faults.inject("delay", seconds=0.15, method="PATCH", path="/pods/", times=None)
        body = f"POST {CLAIMS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        for step in range(60):
            with socket.create_connection(("127.0.0.1", port_of(world))) as caller:
                if step % 2:
                    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
                caller.sendall(body[: step * 3])
                time.sleep(step % 12 * 0.005)
        world.cluster.faults.clear()
        eventually(lambda: world.claimed() == {} and world.pool()["pending"] == 0)
        world.idle(3)
        counts = world.pool()
        assert counts["accepted"] == counts["failed"].get("Cancelled", 0) > 10
