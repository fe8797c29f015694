"""Runs the scenarios against any API server and normalises what it answers, so that two servers can be compared.

What differs from run to run is replaced: uids by <uid1>, <uid2>, ... in the order in which they appear,
resourceVersions by <rv>, times by <time>, continue tokens by <token>, generated suffixes by <suffix>. managedFields and
nulls are dropped: to a client, null is absent.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any

import httpx

from tests.golden.operations import Step

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NUMBERS = re.compile(r"((?:precondition|object meta|resource version|, current): )\d+( \(\d+\))?|(?<=record \()\d+")

#: Seconds to wait for what a step waits for.
_PATIENCE = 30.0


class Replay:
    """One scenario on one server. `run` gives an answer for each step."""

    def __init__(self, http: httpx.Client, namespace: str) -> None:
        self._http = http
        self._namespace = namespace
        self._saved: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    def run(self, steps: Sequence[Step]) -> list[dict[str, Any]]:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        self._http.post("/api/v1/namespaces", json=namespace).raise_for_status()
        return [self._step(step) for step in steps]

    def _step(self, step: Step) -> dict[str, Any]:
        content = None if step.body is None else json.dumps(self._filled(step.body))
        request = self._http.build_request(
            step.method,
            _path(step.path, self._namespace),
            params=self._filled(dict(step.query)),
            content=content,
            headers={"accept": step.accept, **({"content-type": step.media_type} if content else {})},
        )
        if step.events:
            return self._watch(request, step.events)
        response = self._send(request, step.until)
        body = _json(response)
        for name, path in step.save.items():
            self._saved[name] = _at(body, path)
        warnings = {"warnings": response.headers.get_list("warning")} if step.warns else {}
        return {"status": response.status_code, "body": self._normal(body), **warnings}

    def _send(self, request: httpx.Request, until: str) -> httpx.Response:
        deadline = time.monotonic() + _PATIENCE
        response = self._http.send(request)
        while until not in response.text:
            assert time.monotonic() < deadline, f"{request.url}: never {until!r}, but {response.text}"
            time.sleep(0.05)
            response = self._http.send(request)
        return response

    def _watch(self, request: httpx.Request, count: int) -> dict[str, Any]:
        response = self._http.send(request, stream=True)
        try:
            if response.status_code != 200:
                response.read()
                return {"status": response.status_code, "body": self._normal(_json(response))}
            lines = response.iter_lines()
            return {"status": 200, "events": [self._normal(json.loads(next(lines))) for _ in range(count)]}
        finally:
            response.close()

    def _filled(self, value: Any) -> Any:
        """`value` with the saved variables put in."""
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return self._saved[value[1:]] if isinstance(value, str) and value.startswith("$") else value

    def _normal(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("generateName") and value.get("name"):
                value = {**value, "name": value["generateName"] + "<suffix>"}
            return {name: self._normal(item, name) for name, item in value.items() if _is_kept(name, item)}
        if isinstance(value, list):
            return [self._normal(item) for item in value]
        if not isinstance(value, str) or not value:
            return value
        if key in ("resourceVersion", "continue"):
            return "<rv>" if key == "resourceVersion" else "<token>"
        text = _UUID.sub(lambda match: self._uids.setdefault(match[0], f"<uid{len(self._uids) + 1}>"), value)
        return _NUMBERS.sub(lambda match: f"{match[1] or ''}<rv>", _TIME.sub("<time>", text))


def _is_kept(name: str, value: Any) -> bool:
    return value is not None and name != "managedFields"


def _path(path: str, namespace: str) -> str:
    if path.startswith("/"):
        return path
    group, _, rest = path.rpartition(":")
    return f"/apis/{group}/namespaces/{namespace}/{rest}" if group else f"/api/v1/namespaces/{namespace}/{rest}"


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text


def _at(value: Any, path: str) -> str:
    for key in path.split("."):
        value = value.get(key, {}) if isinstance(value, dict) else {}
    return value if isinstance(value, str) else ""
