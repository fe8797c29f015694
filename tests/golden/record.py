"""Records what a real API server answers to `operations.py`, into answers.json.

    python -m tests.golden.record --kube-apiserver PATH --etcd PATH

Both binaries are started here, on loopback and in a temporary folder, and stopped again. Needed only when operations
or the Kubernetes version change; the tests replay the recorded answers. (How to build the binaries with nothing but Go:
`k8s.io/kubernetes/cmd/kube-apiserver` and `go.etcd.io/etcd/server/v3` as `tool` lines of a go.mod.)
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.golden.operations import SCENARIOS
from tests.golden.replay import Replay

ANSWERS = Path(__file__).with_name("answers.json")
_TOKEN = "golden"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kube-apiserver", type=Path, required=True)
    parser.add_argument("--etcd", type=Path, required=True)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        etcd = stack.enter_context(_etcd(chosen.etcd, Path(folder)))
        http = stack.enter_context(_apiserver(chosen.kube_apiserver, Path(folder), etcd))
        version = http.get("/version").json()["gitVersion"]
        answers = {name: Replay(http, name).run(steps) for name, steps in SCENARIOS.items()}
    # One line an answer: small, and a new recording shows line by line what has changed.
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(each, separators=(",", ":"), sort_keys=True) for each in given) + "\n]"
        for name, given in answers.items()
    ]
    ANSWERS.write_text(f'{{"server": "{version}", "scenarios": {{\n' + ",\n".join(lines) + "\n}}\n")


@contextmanager
def _etcd(binary: Path, folder: Path) -> Iterator[str]:
    client, peer = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
    command = [
        *(binary, f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
        *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"),
    ]
    with _running(command, folder / "etcd.log"):
        yield client


@contextmanager
def _apiserver(binary: Path, folder: Path, etcd: str) -> Iterator[httpx.Client]:
    key, tokens, port = folder / "sa.key", folder / "tokens.csv", _free_port()
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    tokens.write_text(f'{_TOKEN},embedded,embedded,"system:masters"\n')
    command = [
        *(binary, f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
        *(f"--secure-port={port}", f"--cert-dir={folder}", f"--token-auth-file={tokens}"),
        *("--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC"),
        *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}"),
        *(f"--service-account-signing-key-file={key}", "--allow-privileged=true"),
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]
    headers = {"authorization": f"Bearer {_TOKEN}"}
    with (
        _running(command, folder / "kube-apiserver.log"),
        httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, headers=headers, timeout=30) as http,
    ):
        _wait_ready(http, folder / "kube-apiserver.log")
        yield http


@contextmanager
def _running(command: list[str | Path], log: Path) -> Iterator[None]:
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield
        finally:
            process.terminate()


def _wait_ready(http: httpx.Client, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if http.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.3)
    raise RuntimeError(f"kube-apiserver is not ready after 120 s: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
