"""Finding the API server: kubeconfig, service account, URL; TLS; credentials that rotate; settings that are wrong."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.kube.client.api import ApiServer, Interrupted, Unreachable
from extender.kube.client.kubeconfig import ConnectionSettingsError, connect, current_namespace
from extender.kube.client.transport import Endpoint, Tls
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import ScriptedServer, reply, status

CERTS = Path(__file__).parents[3] / "support" / "http" / "certs"


def kubeconfig(path: Path, server: str, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "elsewhere", "user": "u", "namespace": "team-a"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": server, **cluster}},
            {"name": "elsewhere", "cluster": {"server": "http://127.0.0.1:2"}},
        ],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def connected() -> Iterator[Callable[[ClusterSettings], ApiServer]]:
    made: list[ApiServer] = []

    def make(settings: ClusterSettings) -> ApiServer:
        made.append(connect(settings))
        return made[-1]

    yield make
    for api in made:
        api.close()


@pytest.fixture
def tls_server() -> Iterator[ScriptedServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
    with ScriptedServer(tls=context) as scripted:
        scripted.on("GET", "/x", reply(200, {}))
        yield scripted


def test_a_bare_url_needs_no_kubernetes_package() -> None:
    code = (
        "import sys; from extender.kube.client.kubeconfig import connect;"
        "from extender.settings import ClusterSettings;"
        "connect(ClusterSettings(server='http://127.0.0.1:8001/prefix/')); assert 'kubernetes' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_a_bare_url_is_taken_apart() -> None:
    assert connect(ClusterSettings(server="http://[::1]:8001/p/")).endpoint.url == "http://[::1]:8001/p"
    assert connect(ClusterSettings(server="https://host")).endpoint.url == "https://host:443"


@pytest.mark.parametrize(
    "server",
    [
        "host:8001",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://user:pw@host",
        "http://host?x=1",
        "http://[::1",
    ],
)
def test_a_url_that_makes_no_sense_is_refused_by_name(server: str) -> None:
    with pytest.raises(ConnectionSettingsError, match=r"cluster\.server"):
        connect(ClusterSettings(server=server))


def test_kubeconfig_with_a_token(server: ScriptedServer, connected: Any, tmp_path: Path) -> None:
    server.on("GET", "/x", reply(200, {}))
    path = kubeconfig(tmp_path / "config", server.url, {"token": "secret"})
    assert connected(ClusterSettings(kubeconfig=path)).request("GET", "/x").status == 200
    assert server.requests[0].headers["authorization"] == "Bearer secret"


def test_kubeconfig_with_a_password(server: ScriptedServer, connected: Any, tmp_path: Path) -> None:
    server.on("GET", "/x", reply(200, {}))
    path = kubeconfig(tmp_path / "config", server.url, {"username": "me", "password": "pw"})
    connected(ClusterSettings(kubeconfig=path)).request("GET", "/x")
    assert server.requests[0].headers["authorization"] == "Basic " + base64.b64encode(b"me:pw").decode()


def test_the_context_chooses_the_cluster(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    assert connect(ClusterSettings(kubeconfig=path, context="there")).endpoint.port == 2


def test_the_server_setting_overrides_the_kubeconfigs_and_keeps_its_credentials(
    server: ScriptedServer, connected: Any, tmp_path: Path
) -> None:
    server.on("GET", "/x", reply(200, {}))
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"token": "secret"})
    connected(ClusterSettings(kubeconfig=path, server=server.url)).request("GET", "/x")
    assert server.requests[0].headers["authorization"] == "Bearer secret"


def test_an_exec_plug_in_gives_the_token(server: ScriptedServer, connected: Any, tmp_path: Path) -> None:
    server.on("GET", "/x", reply(200, {}))
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"fresh"}}'
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print('''{credential}''')"],
        "interactiveMode": "Never",
    }
    path = kubeconfig(tmp_path / "config", server.url, {"exec": plugin})
    connected(ClusterSettings(kubeconfig=path)).request("GET", "/x")
    assert server.requests[0].headers["authorization"] == "Bearer fresh"


def test_an_exec_plug_in_that_fails_is_an_error_and_not_anonymous(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/no/such/plug-in",
        "interactiveMode": "Never",
    }
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"exec": plugin})
    with pytest.raises(ConnectionSettingsError, match=r"cluster\.kubeconfig.*plug-in"):
        connect(ClusterSettings(kubeconfig=path))


def test_an_exec_plug_in_is_asked_again_after_a_401(
    server: ScriptedServer, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.kube.client.kubeconfig._RELOAD_PAUSE", 0.0)
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    given = tmp_path / "credential.json"
    given.write_text(credential % "first")
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [str(given)],
        "interactiveMode": "Never",
    }
    server.on("GET", "/x", reply(200, {}), status(401, "expired"), reply(200, {}))
    api = connected(ClusterSettings(kubeconfig=kubeconfig(tmp_path / "config", server.url, {"exec": plugin})))
    assert api.request("GET", "/x").status == 200
    given.write_text(credential % "second")
    assert api.request("GET", "/x").status == 401
    assert api.request("GET", "/x").status == 200
    told = [request.headers["authorization"] for request in server.requests]
    assert told == ["Bearer first", "Bearer first", "Bearer second"]


def test_a_token_file_that_was_rotated_is_read_again_after_a_401(
    server: ScriptedServer, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.kube.client.kubeconfig._RELOAD_PAUSE", 0.0)
    token = tmp_path / "token"
    token.write_text("old\n")
    server.on("GET", "/x", reply(200, {}), status(401, "expired"), reply(200, {}))
    api = connected(ClusterSettings(kubeconfig=kubeconfig(tmp_path / "config", server.url, {"tokenFile": str(token)})))
    api.request("GET", "/x")
    token.write_text("new\n")
    assert api.request("GET", "/x").status == 401
    api.request("GET", "/x")
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer old",
        "Bearer old",
        "Bearer new",
    ]


def test_a_service_account_is_used_in_a_pod_and_its_token_rotates(
    tls_server: ScriptedServer, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datetime

    from kubernetes.config import incluster_config

    token = tmp_path / "token"
    token.write_text("first")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(CERTS / "ca.pem"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", tls_server.url.rsplit(":", 1)[1])
    monkeypatch.setattr("extender.kube.client.kubeconfig._TOKEN_REUSE", 0.0)
    api = connected(ClusterSettings())
    api.request("GET", "/x")
    token.write_text("second")
    loader = api.endpoint.authorization.__self__.configuration.refresh_api_key_hook.__closure__[0].cell_contents
    loader.token_expires_at = datetime.datetime.now()
    api.request("GET", "/x")
    told = [request.headers["authorization"].split() for request in tls_server.requests]
    assert told == [["bearer", "first"], ["bearer", "second"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        ("", "cluster.kubeconfig"),
        ("{", "cluster.kubeconfig"),
        ("current-context: x\ncontexts: []\nclusters: []\nusers: []\n", "cluster.kubeconfig"),
        ("[1, 2]", "cluster.kubeconfig"),
    ],
)
def test_a_kubeconfig_that_makes_no_sense_is_refused_by_name(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConnectionSettingsError, match=message):
        connect(ClusterSettings(kubeconfig=path))


def test_a_context_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match="nowhere"):
        connect(ClusterSettings(kubeconfig=kubeconfig(tmp_path / "config", "http://x"), context="nowhere"))


def test_a_certificate_file_that_is_none_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("not a certificate")
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", **{"certificate-authority": str(bad)})
    with pytest.raises(ConnectionSettingsError, match="certificates"):
        connect(ClusterSettings(kubeconfig=path))


def test_a_proxy_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://x:1", **{"proxy-url": "socks5://127.0.0.1:1"})
    with pytest.raises(ConnectionSettingsError, match="proxy"):
        connect(ClusterSettings(kubeconfig=path))


def test_a_proxy_tunnels_tls_to_the_real_host(tmp_path: Path, server: ScriptedServer, connected: Any) -> None:
    ca = str(CERTS / "ca.pem")
    extra = {"proxy-url": server.url, "certificate-authority": ca}
    path = kubeconfig(tmp_path / "config", "https://cluster.invalid:6443", **extra)
    with pytest.raises(Unreachable, match=r"proxy: 404 to CONNECT"):
        connected(ClusterSettings(kubeconfig=path)).request("GET", "/x")
    assert server.requests[0].method == "CONNECT"


# -- TLS -------------------------------------------------------------------------------------------------------


def test_the_servers_certificate_is_verified_with_the_kubeconfigs_ca(
    tls_server: ScriptedServer, connected: Any, tmp_path: Path
) -> None:
    data = base64.b64encode((CERTS / "ca.pem").read_bytes()).decode()
    path = kubeconfig(tmp_path / "config", tls_server.url, **{"certificate-authority-data": data})
    assert connected(ClusterSettings(kubeconfig=path)).request("GET", "/x").status == 200


def secure(server: ScriptedServer, **tls: Any) -> ApiServer:
    return ApiServer(Endpoint("127.0.0.1", int(server.url.rsplit(":", 1)[1]), tls=Tls(**tls)))


@pytest.mark.parametrize(
    "tls", [{}, {"ca_file": str(CERTS / "ca.pem"), "server_name": "other.test"}], ids=["ca", "name"]
)
def test_a_server_that_cannot_prove_its_name_is_unreachable(tls_server: ScriptedServer, tls: dict[str, Any]) -> None:
    with pytest.raises(Unreachable, match="certificate verify failed"):
        secure(tls_server, **tls).request("POST", "/x", body=b"{}")
    assert tls_server.requests == []


@pytest.mark.parametrize(
    "tls",
    [
        {"ca_file": str(CERTS / "ca.pem")},
        {"ca_data": (CERTS / "ca.pem").read_text()},
        {"ca_file": str(CERTS / "ca.pem"), "server_name": "api.waggle.test"},
        {"verify": False},
    ],
    ids=["file", "data", "server-name", "insecure"],
)
def test_ways_to_trust_a_server(tls_server: ScriptedServer, tls: dict[str, Any]) -> None:
    api = secure(tls_server, **tls)
    assert api.request("GET", "/x").status == 200
    assert api.request("GET", "/x").status == 200
    api.close()
    assert tls_server.connections == 1


def test_a_client_certificate_is_shown(tls_server: ScriptedServer, tmp_path: Path, connected: Any) -> None:
    assert tls_server.tls is not None
    tls_server.tls.verify_mode = ssl.CERT_REQUIRED
    tls_server.tls.load_verify_locations(CERTS / "ca.pem")
    ca = {"certificate-authority": str(CERTS / "ca.pem")}
    user = {"client-certificate": str(CERTS / "client.pem"), "client-key": str(CERTS / "client.key")}
    path = kubeconfig(tmp_path / "config", tls_server.url, user, **ca)
    assert connected(ClusterSettings(kubeconfig=path)).request("GET", "/x").status == 200
    without = kubeconfig(tmp_path / "without", tls_server.url, **ca)
    with pytest.raises((Unreachable, Interrupted)):
        connected(ClusterSettings(kubeconfig=without)).request("GET", "/x")


def test_renewed_certificate_files_come_into_use(tls_server: ScriptedServer, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes((CERTS / "client.pem").read_bytes())
    api = secure(tls_server, ca_file=str(ca))
    with pytest.raises(Unreachable):
        api.request("GET", "/x")
    ca.write_bytes((CERTS / "ca.pem").read_bytes())
    os.utime(ca, ns=(1, 1))
    assert api.request("GET", "/x").status == 200
    api.close()


def test_a_certificate_file_that_vanished_is_unreachable(tls_server: ScriptedServer, tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        secure(tls_server, ca_file=str(tmp_path / "none.pem")).request("GET", "/x")


@pytest.mark.parametrize(("context", "namespace"), [(None, "default"), ("there", "team-a"), ("nowhere", "default")])
def test_the_namespace_is_that_of_the_context(tmp_path: Path, context: str | None, namespace: str) -> None:
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    assert current_namespace(ClusterSettings(kubeconfig=path, context=context)) == namespace


def test_without_a_kubeconfig_the_namespace_is_default(tmp_path: Path) -> None:
    assert current_namespace(ClusterSettings(kubeconfig=tmp_path / "none")) == "default"
    assert current_namespace(ClusterSettings(server="http://127.0.0.1:1")) == "default"
