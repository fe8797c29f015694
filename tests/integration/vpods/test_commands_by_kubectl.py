"""`waggle vpods` in a cluster: through kubectl's forwarding, with certificates on both sides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from extender.operate.certs import create, secrets, service_hosts
from tests.integration.client.test_commands_by_kubectl import _KUBECTL, CLIENTS, SHIM
from tests.support.cluster.vpod_world import VPodWorld, vpod_world

pytestmark = pytest.mark.skipif(not _KUBECTL and os.environ.get("CI") != "true", reason="needs kubectl")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VPodWorld]:
    create(tmp_path / "certs", service_hosts("waggle", "waggle-system"), CLIENTS, days=1, ca_days=1, force=False)
    own = tmp_path / "certs" / "server"
    tls = {"cert_file": str(own / "tls.crt"), "key_file": str(own / "tls.key"), "client_ca_file": str(own / "ca.crt")}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text(SHIM)
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    server = {"port": 0, "tls": {**tls, "page_clients": ["waggle-viewer"]}}
    with vpod_world(replicas=2, capacity=4, autoscale=False, serve=False, sections={"server": server}) as w:
        for secret in yaml.safe_load_all(secrets(tmp_path / "certs", CLIENTS, "waggle-system")):
            w.cluster.apply(secret)
        write_kubeconfig(tmp_path / "kubeconfig", w.cluster.url)
        (tmp_path / "port").write_text(w.serve().handle.url.rpartition(":")[2])
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setenv("KUBECTL", str(_KUBECTL))
        monkeypatch.setenv("SITE", str(tmp_path))
        monkeypatch.delenv("WAGGLE_SERVER", raising=False)
        w.add_vpod("a", 5)
        w.placed("a", 5)
        yield w


def test_sets_plans_and_explanations_go_through_kubectl(world: VPodWorld) -> None:
    for arguments, text in (
        (("show",), "default/fleet"),
        (("show", "default/fleet"), "5 of 5 vreplicas placed"),
        (("plan", "default/fleet", "--vreplicas", "a=8"), "3 would be new"),
        (("explain", "default/fleet", "a"), "5 of 5 vreplicas placed"),
    ):
        found = CliRunner().invoke(app, ["vpods", *arguments])
        assert found.exit_code == 0, found.output
        assert text in found.output
    assert CliRunner().invoke(app, ["vpods", "show", "default/other"]).exit_code == 1
