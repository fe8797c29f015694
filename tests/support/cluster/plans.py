"""A whole server that makes plans, in this process; its plans are made by processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from extender.kube.client.access_review import Reviewer
from extender.server.plans.service import PlanService
from extender.server.process import ServerProcess
from extender.settings import Settings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread
from tests.support.apiserver.api import eventually


class PlanServer(NamedTuple):
    """A server and its address."""

    url: str
    process: ServerProcess

    @property
    def plans(self) -> PlanService:
        assert self.process.plans is not None
        return self.process.plans

    def ask(self, body: Mapping[str, Any] | str, *, form: str = "", token: str = "") -> httpx.Response:
        """Post to /v1/plan: JSON, or YAML if `body` is a text."""
        is_yaml = isinstance(body, str)
        headers = {"Content-Type": "application/yaml" if is_yaml else "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        content = body if isinstance(body, str) else json.dumps(body)
        query = {"format": form} if form else {}
        while True:  # plans have a share of one core: others may be due first
            answer = httpx.post(f"{self.url}/v1/plan", content=content, params=query, headers=headers, timeout=60)
            if answer.status_code != 503 or answer.json()["code"] != "Busy":
                return answer

    def plan(self, **wanted: Any) -> dict[str, Any]:
        """The plan of a request that is served."""
        answer = self.ask(wanted)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["plan"]
        return found


@contextmanager
def serving(api: str, **sections: Any) -> Iterator[PlanServer]:
    """Serve plans of the cluster at `api`. `sections`: of the configuration."""
    settings = Settings.model_validate({"server": {"port": 0}, "cluster": {"server": api}} | sections)
    process = ServerProcess(settings)
    process.start()
    service = process.service
    assert service is not None
    try:
        app = create_app(
            service.runtime, settings, service.comparer, plans=process.plans, reviewer=Reviewer(process.api)
        )
        handle = serve_in_thread(app, settings)
        try:
            eventually(lambda: service.runtime.readiness().ready)
            yield PlanServer(handle.url, process)
        finally:
            handle.stop()
    finally:
        process.stop()
