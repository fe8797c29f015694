"""`waggle claim` and `pools` in a cluster: through kubectl's forwarding, with certificates on both sides.

The embedded cluster has no kubelet that could forward a port: what kubectl would do there, a script does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import app
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from extender.operate.certs import create, secrets, service_hosts
from tests.e2e.build import find
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, claim_world

_KUBECTL = os.environ.get("WAGGLE_KUBECTL") or which("kubectl") or find("kubectl")
pytestmark = pytest.mark.skipif(not _KUBECTL and os.environ.get("CI") != "true", reason="needs kubectl")

CLIENTS = ["kube-scheduler", "waggle-viewer"]
SHIM = """#!/usr/bin/env bash
case " $* " in
  *" port-forward "*)
    echo $$ >> "$SITE/forwardings"
    echo "Forwarding from 127.0.0.1:$(cat "$SITE/port") -> 9096"
    exec sleep 600;;
esac
exec "$KUBECTL" "$@"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClaimWorld, Path]]:
    folder = tmp_path_factory.mktemp("site")
    create(folder / "certs", service_hosts("waggle", "waggle-system"), CLIENTS, days=1, ca_days=1, force=False)
    own = folder / "certs" / "server"
    tls = {
        "cert_file": str(own / "tls.crt"),
        "key_file": str(own / "tls.key"),
        "client_ca_file": str(own / "ca.crt"),
        "page_clients": ["waggle-viewer"],
    }
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").write_text(SHIM)
    (folder / "bin" / "kubectl").chmod(0o755)
    with claim_world(pods=2, mode="recycle", serve=False, sections={"server": {"port": 0, "tls": tls}}) as world:
        for secret in yaml.safe_load_all(secrets(folder / "certs", CLIENTS, "waggle-system")):
            world.cluster.apply(secret)
        write_kubeconfig(folder / "kubeconfig", world.cluster.url)
        (folder / "port").write_text(world.serve().handle.url.rpartition(":")[2])
        yield world, folder


@pytest.fixture(autouse=True)
def environment(site: tuple[ClaimWorld, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = site
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    monkeypatch.setenv("KUBECTL", str(_KUBECTL))
    monkeypatch.setenv("SITE", str(folder))
    monkeypatch.delenv("WAGGLE_SERVER", raising=False)


def test_pools_and_claims_go_through_kubectl(site: tuple[ClaimWorld, Path]) -> None:
    world, _ = site
    eventually(lambda: " 2 " in CliRunner().invoke(app, ["pools"]).stdout)
    found = CliRunner().invoke(app, ["claim", "default/warm", "--", "sh", "-c", 'test -n "$WAGGLE_POD_IP"'])
    assert found.exit_code == 0, found.output
    assert world.claimed() == {}


@pytest.mark.slow
def test_a_claim_outlives_its_forwarding(site: tuple[ClaimWorld, Path]) -> None:
    world, folder = site
    held = subprocess.Popen([sys.executable, "-m", "extender.cli", "claim", "default/warm", "--lease", "3"])
    eventually(world.claimed)
    before = (folder / "forwardings").read_text().split()
    os.kill(int(before[-1]), signal.SIGTERM)
    time.sleep(4)  # longer than the lease
    assert held.poll() is None
    assert len(world.claimed()) == 1
    assert len((folder / "forwardings").read_text().split()) > len(before)
    held.send_signal(signal.SIGINT)
    assert held.wait(30) == 0
    assert world.claimed() == {}
