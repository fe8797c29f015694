"""`waggle ui` against an API server with a real kubectl, and a Waggle that wants certificates.

The embedded cluster has no kubelet that could forward a port: what kubectl would do there, a script does.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from extender.kube.client.access_review import Reviewer
from extender.kube.client.kubeconfig import connect
from extender.operate.certs import create, secrets, service_hosts
from extender.operate.reach import Connection, ReachError, Target, context_namespace
from extender.server.views import Explanation, PodView
from extender.settings import ClusterSettings, ServerSettings, Settings, TlsSettings
from extender.web.app import create_app
from extender.web.http.server import serve_in_thread as serve_pages
from tests.e2e.build import find
from tests.support.apiserver.api import eventually
from tests.support.http.fixed_runtime import FixedRuntime

_KUBECTL = os.environ.get("WAGGLE_KUBECTL") or which("kubectl") or find("kubectl")
pytestmark = pytest.mark.skipif(not _KUBECTL and os.environ.get("CI") != "true", reason="needs kubectl")

CLIENTS = ["kube-scheduler", "waggle-viewer"]
SHIM = """#!/usr/bin/env bash
case " $* " in
  *" port-forward "*)
    test -e "$SITE/nobody-leads" && { echo "error: no pods found" >&2; exit 1; }
    echo $$ >> "$SITE/forwardings"
    echo "Forwarding from 127.0.0.1:$(cat "$SITE/port") -> 9096"
    exec sleep 600;;
  *" create token "*) echo "token-of-${*: -1}"; exit;;
esac
exec "$KUBECTL" "$@"
"""


@dataclass
class Site:
    """A cluster with Waggle's Secrets, a Waggle, and a kubectl on the PATH that knows both."""

    folder: Path
    runtime: FixedRuntime = field(default_factory=FixedRuntime)

    def forwardings(self) -> list[int]:
        file = self.folder / "forwardings"
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread() as cluster:
        yield cluster


@pytest.fixture
def site(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """The parameter is `server.inspect_authorization`. The API server knows every token."""
    certs = tmp_path / "certs"
    create(certs, service_hosts("waggle", "waggle-system"), CLIENTS, days=1, ca_days=1, force=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text(SHIM)
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", cluster.url)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("KUBECTL", str(_KUBECTL))
    monkeypatch.setenv("SITE", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for secret in yaml.safe_load_all(secrets(certs, CLIENTS, "waggle-system")):
        cluster.apply(secret)
    own = certs / "server"
    tls = TlsSettings(
        cert_file=own / "tls.crt",
        key_file=own / "tls.key",
        client_ca_file=own / "ca.crt",
        verb_clients=("kube-scheduler",),
        page_clients=("waggle-viewer",),
    )
    made = Site(tmp_path)
    authorization = getattr(request, "param", "none")
    settings = Settings(server=ServerSettings(port=0, tls=tls, inspect_authorization=authorization))
    with ExitStack() as stack:
        reviewer = Reviewer(stack.enter_context(closing(connect(ClusterSettings(server=cluster.url)))))
        pages = stack.enter_context(serve_pages(create_app(made.runtime, settings, reviewer=reviewer), settings))
        (tmp_path / "port").write_text(pages.url.rpartition(":")[2])
        yield made


class Browser:
    """One browser, with its cookies."""

    def __init__(self, address: str) -> None:
        self.parts = urlsplit(address)
        self.cookie = ""

    def ask(
        self, path: str, *, method: str = "GET", host: str = "", origin: str = "", body: bytes | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection(str(self.parts.hostname), self.parts.port, timeout=60)
        headers = {"Host": host or self.parts.netloc} | ({"Cookie": self.cookie} if self.cookie else {})
        headers |= {"Origin": origin} if origin else {}
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        body, told = answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        self.cookie = told.get("set-cookie", self.cookie).partition(";")[0]
        return answer.status, body, told

    def enter(self) -> int:
        return self.ask(f"{self.parts.path}?{self.parts.query}")[0]


@pytest.fixture
def command(site: Site) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as somebody runs it, and the address that it printed."""
    arguments = [sys.executable, "-m", "extender.cli", "ui", "--no-browser"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_who_has_the_address_sees_the_pages_and_nobody_else(command: tuple[subprocess.Popen[str], str]) -> None:
    address = command[1]
    stranger, browser = Browser(address), Browser(address)

    assert stranger.ask("/ui")[0] == 403
    assert stranger.ask("/?key=guessed")[0] == 403
    assert browser.enter() == 303
    status, body, told = browser.ask("/ui")
    assert status == 200
    assert b"<html" in body
    assert "default-src" in told["content-security-policy"]
    assert browser.ask("/v1/inspect/pods")[0] == 200
    assert browser.ask("/no/such/page")[0] == 404
    assert browser.ask("/ui", method="HEAD")[:2] == (200, b"")
    assert stranger.ask("/v1/inspect/pods")[0] == 403


@pytest.mark.slow
def test_verbs_cannot_be_called(command: tuple[subprocess.Popen[str], str]) -> None:
    browser = Browser(command[1])
    browser.enter()

    assert browser.ask("/bind", method="POST")[0] == 501
    assert browser.ask("/bind")[0] in (403, 405)


@pytest.mark.slow
def test_plans_are_asked_for_by_its_own_page_only(command: tuple[subprocess.Popen[str], str]) -> None:
    stranger, browser = Browser(command[1]), Browser(command[1])
    browser.enter()
    own = f"http://{browser.parts.netloc}"

    assert stranger.ask("/v1/plan", method="POST", origin=own, body=b"{}")[0] == 403
    assert browser.ask("/v1/plan", method="POST", origin="http://evil.example.com", body=b"{}")[0] == 421
    assert browser.ask("/v1/plan", method="POST", body=b"{}")[0] == 421
    assert browser.ask("/v1/plan?format=svg", method="POST", origin=own, body=b"{}")[0] == 501
    status, body, _ = browser.ask("/v1/plan", method="POST", origin=own, body=b"{}")
    assert (status, b"no verb /v1/plan" in body) == (404, True), "Waggle's own answer: this one makes no plans"


@pytest.mark.slow
def test_a_name_that_now_leads_here_is_refused(command: tuple[subprocess.Popen[str], str]) -> None:
    browser = Browser(command[1])
    browser.enter()

    assert browser.ask("/ui", host="evil.example.com")[0] == 421
    assert browser.ask("/ui", host=f"evil.example.com:{browser.parts.port}")[0] == 421


@pytest.mark.slow
def test_nothing_is_left_behind(command: tuple[subprocess.Popen[str], str], site: Site) -> None:
    process, _ = command
    (forwarding,) = site.forwardings()
    assert list(site.folder.glob("waggle-viewer-*/tls.key"))

    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=20) == 0
    assert list(site.folder.glob("waggle-viewer-*")) == []
    eventually(lambda: not Path(f"/proc/{forwarding}").exists())


def test_an_address_for_a_command_line_works_once(site: Site) -> None:
    from threading import Thread

    from extender.operate.ui import LocalPages

    with Connection(Target()) as connection, LocalPages(connection) as pages:
        serving = Thread(target=pages.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            first, second, user = Browser(pages.url_once), Browser(pages.url_once), Browser(pages.url)
            assert [first.enter(), second.enter(), user.enter(), user.enter()] == [303, 403, 303, 303]
            assert first.ask("/ui")[0] == 200
            assert second.ask("/ui")[0] == 403
        finally:
            pages.shutdown()
            serving.join()


@pytest.mark.slow
def test_when_the_forwarding_has_ended_a_new_one_is_begun(site: Site) -> None:
    with Connection(Target()) as connection:
        assert connection.get("/v1/inspect/pods").status == 200
        os.kill(site.forwardings()[0], signal.SIGKILL)
        eventually(lambda: connection.get("/v1/inspect/pods").status == 200 and len(site.forwardings()) == 2)


def test_where_no_replica_leads_it_is_said(site: Site) -> None:
    (site.folder / "nobody-leads").touch()

    with pytest.raises(ReachError, match="no pods found"), Connection(Target()):
        pass


@pytest.mark.slow
def test_without_the_right_to_look_it_is_said_which(site: Site) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "extender.cli", "ui", "--secret", "nothing-there"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "kubectl get secret nothing-there:" in done.stderr
    assert "not found" in done.stderr
    assert "Is there a Waggle in namespace waggle-system of this cluster (docs/install.md)?" in done.stderr
    assert "docs/web-page.md" in done.stderr
    assert site.forwardings() == []


@pytest.mark.parametrize("site", ["kubernetes"], indirect=True)
@pytest.mark.parametrize(("account", "status"), [("", 401), ("viewer", 200)])
def test_where_waggle_wants_a_token_too_it_is_that_of_a_service_account(site: Site, account: str, status: int) -> None:
    with Connection(Target(service_account=account)) as connection:
        assert connection.get("/v1/inspect/pods").status == status


@pytest.mark.slow
def test_a_server_with_the_certificate_of_another_name_is_not_talked_to(site: Site) -> None:
    certificate = {"secret": "waggle-viewer-tls"}
    with (
        pytest.raises(ReachError, match=r"other\.waggle-system\.svc"),
        Connection(Target(service="other", **certificate)) as connection,
    ):
        connection.get("/ui")


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_so(site: Site) -> None:
    taken = (site.folder / "port").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "extender.cli", "ui", "--no-browser", "--port", taken],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"port {taken} of 127.0.0.1 cannot be used" in done.stderr


@pytest.mark.slow
def test_explain_and_top_take_the_same_way(site: Site) -> None:
    site.runtime.pod_views = [PodView("ns", "p", "u", "Waiting", summary="It can never run.", since_seconds=5.0)]
    site.runtime.explanations["ns", "p"] = Explanation(site.runtime.pod_views[0])
    for arguments, text in ((["explain", "ns/p"], "It can never run."), (["top"], "1 Waiting")):
        found = CliRunner().invoke(app, arguments)
        assert (found.exit_code, text in found.stdout) == (0, True), found.output
    assert len(site.forwardings()) == 2


def test_a_pod_without_a_namespace_is_in_that_of_kubectls_context(tmp_path: Path):
    file = tmp_path / "config"

    def kubeconfig(**context: str) -> Target:
        contexts = [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}]
        known = {"clusters": [{"name": "c", "cluster": {"server": "https://c"}}], "users": [{"name": "u", "user": {}}]}
        file.write_text(yaml.safe_dump({"kind": "Config", "current-context": "here", "contexts": contexts, **known}))
        return Target(kubeconfig=str(file))

    assert context_namespace(kubeconfig(namespace="team-a")) == "team-a"
    assert context_namespace(kubeconfig()) == "default"
    with pytest.raises(ReachError, match="nowhere"):
        context_namespace(Target(kubeconfig=str(file), context="nowhere"))
