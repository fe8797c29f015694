"""Raw HTTP against an embedded API server, one namespace a test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.apiserver.cluster_objects import binding, pod
from tests.support.http.plain import plain_client

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Api:
    """Requests as curl would make them; paths are relative to the namespace unless they begin with a slash."""

    def __init__(self, url: str, namespace: str = "default") -> None:
        self.http = plain_client(base_url=url, timeout=30)
        self.namespace = namespace

    def path(self, path: str, group: str = "api/v1") -> str:
        return path if path.startswith("/") else f"/{group}/namespaces/{self.namespace}/{path}"

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.http.get(self.path(path), params=query)

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.http.post(self.path(path), json=body)

    def put(self, path: str, body: Any) -> httpx.Response:
        return self.http.put(self.path(path), json=body)

    def patch(self, path: str, body: Any, media_type: str = MERGE) -> httpx.Response:
        return self.http.patch(self.path(path), content=json.dumps(body), headers={"content-type": media_type})

    def delete(self, path: str, body: Any = None, **query: Any) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        headers = {"content-type": "application/json"}
        return self.http.request("DELETE", self.path(path), content=content, params=query, headers=headers)

    def create_pod(self, name: str, **more: Any) -> dict[str, Any]:
        response = self.post("pods", pod(name, self.namespace, **more))
        assert response.status_code == 201, response.text
        return response.json()

    def bind(self, name: str, node: str = "anywhere", **metadata: Any) -> httpx.Response:
        return self.post(f"pods/{name}/binding", binding(name, node, **metadata))

    def names(self, path: str, **query: Any) -> list[str]:
        response = self.get(path, **query)
        assert response.status_code == 200, response.text
        return [item["metadata"]["name"] for item in response.json()["items"]]

    @contextmanager
    def watch(self, path: str, **query: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a watch, decoded."""
        with self.http.stream("GET", self.path(path), params={"watch": "true", **query}) as response:
            assert response.status_code == 200, response.read()
            yield (json.loads(line) for line in response.iter_lines())

    def close(self) -> None:
        self.http.close()


def reason(response: httpx.Response) -> tuple[int, str]:
    """(HTTP status, reason of the Status body), which must agree."""
    body = response.json()
    assert body["kind"] == "Status"
    assert body["code"] == response.status_code
    return response.status_code, body["reason"]


def brief(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


def eventually(condition: Callable[[], Any], *, seconds: float = 30, why: Callable[[], str] = str) -> Any:
    """Wait until `condition` gives something true, and return it. `why` says what is wrong if it never does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.01)
    raise AssertionError(f"still not true after {seconds} s {why()}")
