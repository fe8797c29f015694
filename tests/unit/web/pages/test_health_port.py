"""The second port: probes and metrics for those without a certificate, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.server.views import Readiness
from extender.settings import ServerSettings, Settings, SettingsError, TlsSettings
from extender.web.app import create_app
from extender.web.http.server import ServerHandle, serve_in_thread
from extender.web.pages.probes import ProbesOnly
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
