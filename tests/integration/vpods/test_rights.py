"""Who may look at sets: `server.inspect_authorization: kubernetes` asks the API server for rights on vpodsets."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from extender.kube.client.access_review import Access, Reviewer, Verdict
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.cluster.vpod_world import vpod_world


class Rights(Reviewer):
    """Knows one user, `tok`, who may get and list sets in the namespace `default`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, str]] = []

    def may(self, token: str, verb: str, group: str, resource: str, namespace: str) -> Access:
        if token != "tok":
            return Access(Verdict.UNAUTHENTICATED, "unknown token")
        self.asked.append((verb, group, resource, namespace))
        is_allowed = namespace == "default" and verb in ("get", "list")
        return Access(Verdict.ALLOWED if is_allowed else Verdict.FORBIDDEN, f"not in {namespace}", "jane")

    def known(self, token: str, verb: str, group: str, resource: str, namespace: str) -> Access | None:
        return None


@pytest.fixture(scope="module", params=[True, False], ids=["reviews", "nobody to ask"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[httpx.Client, Rights | None]]:
    rights = Rights() if request.param else None
    with vpod_world(replicas=1) as w:
        w.add_vpod("a", 1)
        w.placed("a", 1)
        section = {"inspect_authorization": "kubernetes", "port": 0}
        settings = Settings.model_validate(w.settings().model_dump() | {"server": section})
        handle = serve_in_thread(create_app(None, settings, vpods=w.server.vpods, reviewer=rights), settings)
        try:
            with httpx.Client(base_url=handle.url, headers={"Authorization": "Bearer tok"}) as client:
                yield client, rights
        finally:
            handle.stop()


CALLS = [
    ("GET", "/v1/vpods?namespace={}", "list"),
    ("GET", "/v1/vpods/{}/fleet", "get"),
    ("POST", "/v1/vpods/{}/fleet/plan", "get"),
    ("GET", "/v1/vpods/{}/fleet/explain?vpod=a", "get"),
    ("POST", "/v1/vpods/{}/fleet/explain", "get"),
]


@pytest.mark.parametrize(("method", "path", "verb"), CALLS)
def test_a_call_needs_the_right_in_the_namespace_of_the_set(
    served: tuple[httpx.Client, Rights | None], method: str, path: str, verb: str
) -> None:
    client, rights = served
    body = {"json": {"vpod": "a"} if path.endswith("explain") else {}} if method == "POST" else {}
    answer = client.request(method, path.format("default"), **body)
    if rights is None:
        assert answer.status_code == 503
        assert "cannot ask" in answer.json()["error"]
        return
    assert answer.status_code == 200, answer.text
    assert rights.asked[-1] == (verb, "waggle.dev", "vpodsets", "default")
    refused = client.request(method, path.format("other"), **body)
    assert (refused.status_code, refused.json()["error"]) == (403, "not in other")
    assert client.request(method, path.format("default"), headers={"Authorization": ""}, **body).status_code == 401


def test_a_list_of_all_namespaces_says_how_to_ask_for_one(served: tuple[httpx.Client, Rights | None]) -> None:
    client, rights = served
    if rights is not None:
        answer = client.get("/v1/vpods")
        assert answer.status_code == 403
        assert "jane may not list vpodsets.waggle.dev in all namespaces; ?namespace=NAME" in answer.json()["error"]
