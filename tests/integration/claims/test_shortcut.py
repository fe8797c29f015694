"""The short way of claims and the long one through FastAPI give the same answers."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.support.cluster.claim_world import claim_world


def essence(answer: httpx.Response) -> tuple[int, Any, set[str]]:
    """What has to be the same: ids, names and times of two claims differ."""
    text = re.sub(r'"(id|name|uid|expires|addresses)":("[^"]*"|\[[^]]*\])', r'"\1":0', answer.text)
    return answer.status_code, text, {name for name in answer.headers if name not in ("date", "content-length")}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/pools/default/warm/claims", "{}"),
        ("POST", "/v1/pools/default/warm/claims", ""),
        ("POST", "/v1/pools/default/warm/claims", '{"count": 0}'),
        ("POST", "/v1/pools/default/warm/claims", "nonsense"),
        ("POST", "/v1/pools/default/warm/claims", '{"count": 3, "wait_seconds": 0}'),
        ("POST", "/v1/pools/default/none/claims", "{}"),
        ("POST", "/v1/pools/default/warm/claims", " " * 600_000),
        ("DELETE", "/v1/claims/c-unknown", ""),
        ("POST", "/v1/claims/c-unknown/release", ""),
    ],
)
def test_both_ways_answer_alike(method: str, path: str, body: str) -> None:
    with claim_world(pods=2) as world:
        http = world.server.http
        short = http.request(method, path, content=body)
        long = http.request(method, f"{path}?", content=body, params={"a": "b"})
        assert essence(short) == essence(long)


def test_a_claim_is_released_either_way() -> None:
    with claim_world(pods=2) as world:
        first, second = world.claim().json()["id"], world.claim().json()["id"]
        assert world.server.http.delete(f"/v1/claims/{first}").json()["state"] == "released"
        assert world.server.http.post(f"/v1/claims/{second}/release", params={"a": "b"}).json()["state"] == "released"
        assert world.claimed() == {}


def test_verbs_and_claims_are_served_by_one_process() -> None:
    sections = {"extender": {"enabled": True}}
    with claim_world(pods=1, sections=sections) as world:
        assert world.claim().status_code == 201
        pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
        answer = world.server.http.post("/filter", json={"Pod": pod, "NodeNames": ["n1", "n2"]})
        assert len(answer.json()["NodeNames"]) == 1, answer.text
        ready = world.server.http.get("/readyz/claims")
        assert ready.status_code == 200, ready.text
