"""The second port: probes and metrics for those without a certificate, and nothing else."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from algorithm.interface import Wait
from algorithm.reasons import Code, reason
from extender.scheduling.events import NodeSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server import readmodel
from extender.server.runtime import Runtime
from extender.server.views import Readiness
from extender.settings import ServerSettings, Settings, SettingsError, TlsSettings
from extender.web.app import create_app
from extender.web.http.server import ServerHandle, serve_in_thread
from extender.web.pages.probes import Probes, ProbesOnly, Pulse
from tests.support.apiserver.api import eventually
from tests.support.engine.objects import node
from tests.support.engine.plain_algorithm import PlainAlgorithm
from tests.support.http.fixed_runtime import Client, FixedRuntime, capture

CERTS = Path(__file__).parents[3] / "support" / "http" / "certs"


@pytest.fixture(scope="module")
def runtime() -> FixedRuntime:
    return FixedRuntime()


@pytest.fixture(scope="module")
def server(runtime: FixedRuntime) -> Iterator[ServerHandle]:
    settings = Settings(server=ServerSettings(port=0, health_port=0))
    with serve_in_thread(create_app(runtime, settings), settings) as handle:
        yield handle


@pytest.mark.parametrize("path", sorted(ProbesOnly.PATHS))
def test_probes_and_metrics_are_on_both_ports(server: ServerHandle, path: str):
    assert Client(server.health_url).get(path).status == Client(server.url).get(path).status == 200


@pytest.mark.parametrize("path", ["/", "/v1/inspect/pods", "/openapi.json", "/filter", "//livez", "/livez/"])
def test_nothing_else_is_on_the_health_port(server: ServerHandle, path: str):
    answer = Client(server.health_url).get(path)
    assert (answer.status, answer.text) == (
        404,
        "this port has GET /livez, /metrics, /readyz, /readyz/informed\n",
    )


@pytest.mark.parametrize("path", ["/bind", "/filter", "/livez"])
def test_nobody_can_post_to_the_health_port(server: ServerHandle, runtime: FixedRuntime, path: str):
    assert Client(server.health_url).post(path, capture("bind")).status == 404
    assert runtime.asked == []


def test_who_stands_by_is_informed_and_not_ready(server: ServerHandle, runtime: FixedRuntime):
    runtime.ready = Readiness(False, "another replica leads")
    client = Client(server.health_url)
    assert (client.get("/readyz").status, client.get("/readyz/informed").status) == (503, 200)
    runtime.knows = Readiness(False, "nodes and pods are not synced yet")
    assert "not informed: nodes and pods are not synced" in client.get("/readyz/informed").json["error"]
    runtime.ready = runtime.knows = Readiness(True, "")


def test_the_health_port_needs_no_certificate_where_the_other_does():
    tls = TlsSettings(cert_file=CERTS / "server.pem", key_file=CERTS / "server.key", client_ca_file=CERTS / "ca.pem")
    settings = Settings(server=ServerSettings(port=0, health_port=0, tls=tls))
    with serve_in_thread(create_app(FixedRuntime(), settings), settings) as handle:
        assert handle.url.startswith("https:")
        assert handle.health_url.startswith("http:")
        assert Client(handle.health_url).get("/livez").status == 200


def test_without_a_health_port_there_is_none():
    settings = Settings(server=ServerSettings(port=0))
    with serve_in_thread(create_app(FixedRuntime(), settings), settings) as handle:
        assert handle.health_url == ""


def test_a_health_port_in_use_is_named_and_the_other_is_let_go(server: ServerHandle):
    taken = ServerSettings(port=0, health_port=Client(server.health_url).port)
    with pytest.raises(SettingsError, match=r"server\.health_port: cannot listen on 127\.0\.0\.1:"):
        serve_in_thread(create_app(FixedRuntime(), Settings(server=taken)), Settings(server=taken))


def test_a_stopped_server_closes_both_ports():
    settings = Settings(server=ServerSettings(port=0, health_port=0))
    with serve_in_thread(create_app(FixedRuntime(), settings), settings) as handle:
        pass
    for url in (handle.url, handle.health_url):
        with pytest.raises(ConnectionRefusedError):
            Client(url).get("/livez")


def test_who_is_not_ready_ends_the_connection_with_its_answer(server: ServerHandle, runtime: FixedRuntime):
    client = Client(server.url)
    assert "connection" not in {name.lower() for name in client.post("/filter", capture("filter-mtls")).headers}
    runtime.ready = Readiness(False, "another replica leads")
    headers = {name.lower(): value for name, value in client.post("/filter", capture("filter-mtls")).headers.items()}
    assert headers["connection"] == "close"
    runtime.ready = Readiness(True, "")


# -- while the server hangs -------------------------------------------------------------------------------------------


class Hanging(PlainAlgorithm):
    """Decides when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def schedule(self, *_: object) -> Wait:
        assert self.goes_on.wait(60)
        return Wait(reason(Code.NO_NODE_FITS))


def test_the_health_port_answers_while_a_decision_hangs_and_says_that_it_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readmodel, "_PATIENCE", 0.01)
    algorithm = Hanging()
    settings = Settings(server=ServerSettings(port=0, health_port=0, hang_seconds=1))
    runtime = Runtime(SchedulerStateMachine(algorithm), lambda _: None, hang=settings.server.hang_seconds)
    runtime.handle(NodeSeen(node("n1")), Synced())
    runtime.start()
    body = {"Pod": {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}, "NodeNames": ["n1"]}
    with serve_in_thread(create_app(runtime, settings), settings) as handle:
        client = Client(handle.health_url)
        caller = threading.Thread(target=lambda: Client(handle.url).post("/filter", json.dumps(body).encode()))
        caller.start()
        try:
            eventually(lambda: client.get("/livez").status == 503)
            assert (
                "the engine (algorithm algorithm) has been busy with one event for more than 1 s"
                in client.get("/livez").text
            )
            assert client.get("/readyz").status == client.get("/readyz/informed").status == 503
            assert "waggle_engine_slow_turns_total 1.0" in client.get("/metrics").text
        finally:
            algorithm.goes_on.set()
            caller.join()
        eventually(lambda: client.get("/livez").status == 200)
    runtime.stop()


def test_an_event_loop_that_stands_still_fails_livez_and_is_logged_once():
    now = [100.0]
    pulse = Pulse(lambda: now[0])
    probes = Probes(FixedRuntime(), hang=20, pulse=pulse)
    now[0] = 1000.0
    assert probes.alive().ready, "it has not begun"
    pulse.beat()
    now[0] += 24
    assert probes.alive().ready
    now[0] += 2
    with capture_logs() as lines:
        assert probes.alive().detail == "extender is not alive: the event loop of HTTP has stood still for 26 s"
        assert not probes.alive().ready
    assert [line["event"] for line in lines] == ["the event loop hangs, /livez fails"]
    assert "test_health_port.py" in lines[0]["exception"]
    pulse.beat()
    assert probes.alive().ready


def test_scrapes_are_made_one_at_a_time_and_shared():
    runtime = FixedRuntime()
    settings = Settings(server=ServerSettings(port=0, health_port=0))
    with serve_in_thread(create_app(runtime, settings), settings) as handle, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: Client(handle.health_url).get("/metrics").status, range(24)))
    assert answers == [200] * 24


def test_head_is_not_served_on_the_health_port(server: ServerHandle):
    with closing(http.client.HTTPConnection("127.0.0.1", Client(server.health_url).port)) as connection:
        connection.request("HEAD", "/livez")
        assert connection.getresponse().status == 405
