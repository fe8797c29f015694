"""A real etcd, kube-apiserver and kube-scheduler on loopback, each in a folder of its own, for recordings.

Each is a context manager that ends what it started. Everybody is one user in the group system:masters, known by a
token; certificates are the API server's own and are not checked. No kubelets and no controllers: what is on a node
stays Pending, and what is deleted with a grace period stays until somebody deletes it without one.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

_TOKEN = "golden"
_PATIENCE = 120.0


@contextmanager
def etcd(binary: Path, folder: Path) -> Iterator[str]:
    """Gives its URL for clients."""
    client, peer = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
    command = [
        *(binary, f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
        *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"),
    ]
    with _running(command, folder / "etcd.log"):
        yield client


@contextmanager
def apiserver(binary: Path, folder: Path, etcd_url: str) -> Iterator[httpx.Client]:
    """Gives a client that may do everything, once the server is ready."""
    key, tokens, port = folder / "sa.key", folder / "tokens.csv", _free_port()
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    tokens.write_text(f'{_TOKEN},embedded,embedded,"system:masters"\n')
    command = [
        *(binary, f"--etcd-servers={etcd_url}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
        *(f"--secure-port={port}", f"--cert-dir={folder}", f"--token-auth-file={tokens}"),
        *("--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC"),
        *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}"),
        *(f"--service-account-signing-key-file={key}", "--allow-privileged=true"),
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]
    headers = {"authorization": f"Bearer {_TOKEN}"}
    with (
        _running(command, folder / "kube-apiserver.log") as process,
        httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, headers=headers, timeout=30) as http,
    ):
        _wait_ready(http, process, folder / "kube-apiserver.log")
        yield http


@contextmanager
def kube_scheduler(
    binary: Path, folder: Path, kubeconfig: Path, configuration: dict[str, Any]
) -> Iterator[subprocess.Popen[bytes]]:
    """Gives the process, once it has synchronised with the API server of `kubeconfig`."""
    port, file, log = _free_port(), folder / "kube-scheduler.yaml", folder / "kube-scheduler.log"
    connection = {"kubeconfig": str(kubeconfig), "contentType": "application/json", "qps": 500, "burst": 1000}
    own = {"clientConnection": connection, "leaderElection": {"leaderElect": False}}
    file.write_text(yaml.safe_dump({**configuration, **own}))
    command = [binary, f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder}"]
    with (
        _running(command, log) as process,
        httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, timeout=5) as http,
    ):
        _wait_ready(http, process, log)
        yield process


def write_kubeconfig(path: Path, server: str) -> Path:
    """For `kube_scheduler` and every other client; the token only counts on a server that asks for one."""
    cluster = {"server": server, **({"insecure-skip-tls-verify": True} if server.startswith("https") else {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "golden", "cluster": cluster}],
        "users": [{"name": "golden", "user": {"token": _TOKEN}}],
        "contexts": [{"name": "golden", "context": {"cluster": "golden", "user": "golden"}}],
        "current-context": "golden",
    }
    path.write_text(yaml.safe_dump(document))
    return path


@contextmanager
def _running(command: list[str | Path], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait_ready(http: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if http.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{log.stem} has ended or is not ready after {_PATIENCE:g} s: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
