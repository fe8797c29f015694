"""E2B's API as a face of claims, by raw HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.support.cluster.claim_world import ClaimWorld, claim_world

E2B = {"claims": {"e2b": {"enabled": True, "wait_seconds": 0.3, "domain": "sandboxes.example"}}}


@pytest.fixture(scope="module")
def shared() -> Iterator[ClaimWorld]:
    with claim_world(pods=4, mode="recycle", sections=E2B) as world:
        yield world


@pytest.fixture
def world(shared: ClaimWorld) -> Iterator[ClaimWorld]:
    """Four idle pods, which are there again after each test."""
    yield shared
    for claim in shared.claimed():
        shared.server.http.delete(f"/v1/claims/{claim}")
    shared.idle(4)


def call(world: ClaimWorld, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return world.server.http.request(method, f"/e2b{path}", json=body, headers=found)


def create(world: ClaimWorld, version: str = "/v2", **body: Any) -> dict[str, Any]:
    answer = call(world, "POST", f"{version}/sandboxes", {"templateID": "warm", **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def ends_in(world: ClaimWorld, sandbox: str) -> float:
    """Seconds from now to the end of the lease."""
    end = datetime.fromisoformat(call(world, "GET", f"/sandboxes/{sandbox}").json()["endAt"])
    return (end - datetime.now(end.tzinfo)).total_seconds()


@pytest.mark.parametrize("version", ["", "/v2"])
def test_a_sandbox_is_a_claim_of_one_pod(world: ClaimWorld, version: str) -> None:
    made = create(world, version, timeout=100, metadata={"user": "Ärger & co", "x": ""})
    assert (made["templateID"], made["domain"]) == ("warm", "sandboxes.example")
    assert world.claimed() == {made["sandboxID"]: [made["clientID"]]}
    found = call(world, "GET", f"/sandboxes/{made['sandboxID']}").json()
    assert found["metadata"] == {"user": "Ärger & co", "x": ""}
    assert (found["state"], found["templateID"], found["alias"]) == ("running", "warm", "warm")
    assert 90 < ends_in(world, made["sandboxID"]) <= 100
    assert call(world, "DELETE", f"/sandboxes/{made['sandboxID']}").status_code == 204
    gone = call(world, "DELETE", f"/sandboxes/{made['sandboxID']}")
    assert (gone.status_code, gone.json()["code"]) == (404, 404)
    assert world.claimed() == {}


def test_timeouts_overwrite_refreshes_extend_and_so_do_connections(world: ClaimWorld) -> None:
    sandbox = create(world, timeout=100)["sandboxID"]
    assert call(world, "POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 50}).status_code == 204
    assert 40 < ends_in(world, sandbox) <= 50
    assert call(world, "POST", f"/sandboxes/{sandbox}/refreshes", {"duration": 20}).status_code == 204
    assert 40 < ends_in(world, sandbox) <= 50
    assert call(world, "POST", f"/sandboxes/{sandbox}/refreshes", {"duration": 200}).status_code == 204
    assert 190 < ends_in(world, sandbox) <= 200
    connected = call(world, "POST", f"/v2/sandboxes/{sandbox}/connect", {})
    assert (connected.status_code, connected.json()["sandboxID"]) == (200, sandbox)
    assert call(world, "POST", f"/sandboxes/{sandbox}/connect", {"timeout": 300}).status_code == 200
    assert 290 < ends_in(world, sandbox) <= 300


def test_lists_have_pages_and_filters(world: ClaimWorld) -> None:
    made = [create(world, metadata={"number": str(number), "a&b": "c=d"})["sandboxID"] for number in range(3)]
    world.claim()  # no sandbox, though of the same pool
    first = call(world, "GET", "/v2/sandboxes?limit=2&order=asc")
    assert [each["sandboxID"] for each in first.json()] == made[:2]
    rest = call(world, "GET", f"/v2/sandboxes?limit=2&order=asc&nextToken={first.headers['x-next-token']}")
    assert ([each["sandboxID"] for each in rest.json()], "x-next-token" in rest.headers) == (made[2:], False)
    assert [each["sandboxID"] for each in call(world, "GET", "/sandboxes").json()] == made[::-1]
    filtered = call(world, "GET", "/v2/sandboxes?metadata=number%3D1%26a%252526b%3Dc%25253Dd").json()
    assert [each["sandboxID"] for each in filtered] == made[1:2]
    for nothing in ("state=paused", "template=other", "metadata=number%3D7", "startedAfter=2100-01-01T00:00:00Z"):
        assert call(world, "GET", f"/v2/sandboxes?{nothing}").json() == []


def test_a_key_for_repetitions_is_e2bs_header(world: ClaimWorld) -> None:
    bodies = [{"templateID": "warm", "timeout": 100}, {"templateID": "warm", "timeout": 100}]
    first, again = (call(world, "POST", "/v2/sandboxes", body, idempotency_key="k-1").json() for body in bodies)
    assert first["sandboxID"] == again["sandboxID"]
    other = call(world, "POST", "/v2/sandboxes", {"templateID": "warm", "timeout": 9}, idempotency_key="k-1")
    assert other.status_code == 400


def test_a_pool_without_idle_pods_is_busy_and_not_a_limit_of_an_account(world: ClaimWorld) -> None:
    assert world.claim(count=4).status_code == 201
    late = call(world, "POST", "/v2/sandboxes", {"templateID": "default/warm"})
    assert (late.status_code, late.json()["code"]) == (504, 504)
    assert "DeadlineExceeded" in late.json()["message"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "templateID"),
        ({"templateID": "wram"}, "did you mean default/warm"),
        ({"templateID": "warm", "timeout": -1}, "timeout"),
        ({"templateID": "warm", "timeout": 10**7}, "timeout"),
        ({"templateID": "warm", "envVars": {"A": "b"}}, "envVars"),
        ({"templateID": "warm", "autoPause": True}, "autoPause"),
        ({"templateID": "warm", "metadata": {"x": "y" * 20_000}}, "metadata"),
        ([1], "an object"),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(world: ClaimWorld, body: Any, named: str) -> None:
    answer = call(world, "POST", "/v2/sandboxes", body)
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert named.lower() in answer.json()["message"].lower()
    assert world.claimed() == {}


def test_a_claim_that_is_no_sandbox_is_not_touched(world: ClaimWorld) -> None:
    claim = world.claim().json()["id"]
    for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/refreshes"), ("POST", "/connect")]:
        assert call(world, method, f"/sandboxes/{claim}{path}", {}).status_code == 404
    assert list(world.claimed()) == [claim]


def test_the_rest_is_not_served_and_counted(world: ClaimWorld) -> None:
    for method, path in [("POST", "/sandboxes/x/pause"), ("GET", "/sandboxes/metrics"), ("GET", "/v3/inv/ented")]:
        answer = call(world, method, path)
        assert (answer.status_code, answer.json()["code"]) == (501, 501), path
    metrics = world.server.http.get("/metrics").text
    for label in ("pause", "metrics", "other"):
        assert f'waggle_e2b_calls_total{{call="{label}",status="501"}} 1.0' in metrics


def test_a_creator_that_goes_away_leaves_nothing_claimed(world: ClaimWorld) -> None:
    with ThreadPoolExecutor() as threads:
        ends = [threads.submit(_impatient, world, 0.0005 * number) for number in range(20)]
        made = [end.result() for end in ends]
    kept = {each for each in made if each}
    for sandbox in kept:
        call(world, "DELETE", f"/sandboxes/{sandbox}")
    world.idle(4)
    assert world.claimed() == {}


def _impatient(world: ClaimWorld, seconds: float) -> str:
    with httpx.Client(base_url=world.server.handle.url) as client:
        try:
            times = httpx.Timeout(10, read=seconds + 0.0001)
            answer = client.post("/e2b/v2/sandboxes", json={"templateID": "warm", "timeout": 2}, timeout=times)
        except httpx.TimeoutException:
            return ""
        return str(answer.json().get("sandboxID", ""))
