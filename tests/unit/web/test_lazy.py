"""A server is ready without FastAPI: probes and verbs are answered while the app of the pages is made, once, later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from extender.server.views import Readiness
from extender.settings import ServerSettings, Settings
from extender.web.app import create_app
from extender.web.http import server as http_server
from extender.web.http.server import serve_in_thread
from extender.web.lazy import LazyApp
from extender.web.parts import Parts
from tests.support.http.fixed_runtime import FixedRuntime, capture
from tests.support.http.plain import plain_client

SETTINGS = Settings(server=ServerSettings(port=0))
PROBES = ("/livez", "/readyz", "/readyz/informed")


class Maker:
    """Makes the app of the pages when it may, and counts how often."""

    def __init__(self, runtime: Any) -> None:
        self.parts = Parts.of(runtime, SETTINGS.server)
        self.may_go_on, self.begun = threading.Event(), threading.Event()
        self.times = 0
        self.failure: Exception | None = None
        self._runtime = runtime

    def __call__(self) -> Any:
        self.times += 1
        self.begun.set()
        assert self.may_go_on.wait(10)
        if self.failure is not None:
            raise self.failure
        return create_app(self._runtime, SETTINGS, parts=self.parts)


@pytest.fixture
def runtime() -> FixedRuntime:
    return FixedRuntime()


@pytest.fixture
def maker(runtime: FixedRuntime) -> Iterator[Maker]:
    made = Maker(runtime)
    yield made
    made.may_go_on.set()


@contextmanager
def serving(maker: Maker) -> Iterator[httpx.Client]:
    with (
        serve_in_thread(LazyApp(maker.parts, maker), SETTINGS) as server,
        plain_client(base_url=server.url, timeout=10) as client,
    ):
        try:
            yield client
        finally:
            maker.may_go_on.set()


def shown(answer: httpx.Response) -> tuple[Any, ...]:
    return answer.status_code, answer.content, answer.headers["content-type"]


@pytest.mark.parametrize("ready", [Readiness(True, ""), Readiness(True, "look at it"), Readiness(False, 'not "yet"')])
def test_probes_are_answered_as_fastapi_answers_them_and_without_it(
    runtime: FixedRuntime, maker: Maker, ready: Readiness
) -> None:
    runtime.ready = runtime.alive = runtime.knows = ready
    with serve_in_thread(create_app(runtime, SETTINGS), SETTINGS) as server:
        expected = [shown(httpx.get(server.url + path)) for path in PROBES]
    with serving(maker) as client:
        assert [shown(client.get(path)) for path in PROBES] == expected
        assert not maker.times


def test_verbs_and_probes_are_answered_while_the_pages_are_made(maker: Maker) -> None:
    with serving(maker) as client, ThreadPoolExecutor() as others:
        page = others.submit(client.get, "/")
        assert maker.begun.wait(10)
        assert client.post("/filter", content=capture("filter-nodes")).status_code == 200
        assert client.get("/readyz").status_code == 200
        assert not page.done()
        maker.may_go_on.set()
        assert page.result(10).json()["name"] == "waggle"


def test_the_app_is_made_once_however_many_ask_for_it(maker: Maker) -> None:
    with serving(maker) as client, ThreadPoolExecutor(8) as others:
        pages = [others.submit(client.get, path) for path in ("/", "/metrics", "/nowhere", "/filter/") * 2]
        assert maker.begun.wait(10)
        maker.may_go_on.set()
        assert [page.result(10).status_code for page in pages] == [200, 200, 404, 405] * 2
        assert maker.times == 1


def test_the_app_is_made_in_idle_time_although_nobody_asks_for_it(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PREPARE_SECONDS", 0.0)
    with serving(maker):
        assert maker.begun.wait(10)


def test_an_app_that_cannot_be_made_is_logged_and_verbs_go_on(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "PREPARE_SECONDS", 0.0)
    maker.failure = ImportError("no module named fastapi")
    with capture_logs() as logs, serving(maker) as client:
        maker.may_go_on.set()
        assert maker.begun.wait(10)
        assert client.get("/").status_code == 500
        assert client.post("/filter", content=capture("filter-nodes")).status_code == 200
        assert client.get("/readyz").status_code == 200
    assert [line["event"] for line in logs if line["event"] == "pages cannot be served"]


def test_other_methods_on_a_probe_are_for_fastapi(maker: Maker) -> None:
    maker.may_go_on.set()
    with serving(maker) as client:
        assert client.post("/readyz").status_code == 405
