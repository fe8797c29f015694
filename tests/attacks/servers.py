"""The processes of an attack: API server, the server that is attacked, and the innocent caller."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from extender.demo.workloads import nodes
from extender.operate.certs import Authority
from tests.attacks.aims import Usage
from tests.attacks.probe import PROBES
from tests.attacks.registry import Scheme
from tests.attacks.requests import NODES, probe

#: Seconds that a process may take to start or to end.
_PATIENCE = 60.0
#: The clients that have a certificate: the file names below `certs/`.
KUBE_SCHEDULER = "tls"


@dataclass
class Server:
    """The server that is attacked. `port` serves the verbs, `health_port` probes and metrics (0: there is none)."""

    process: subprocess.Popen[bytes]
    scheme: Scheme
    port: int
    health_port: int
    certs: Path | None
    log: Path

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def usage(self) -> Usage:
        """Raises AssertionError if the process is gone."""
        assert self.process.poll() is None, f"the server has ended: {self.log.read_bytes()[-2000:].decode()}"
        folder = Path(f"/proc/{self.process.pid}")
        lines = (line.split() for line in (folder / "status").read_text().splitlines())
        values = {words[0]: words[1] for words in lines if len(words) > 1}
        descriptors = len(os.listdir(folder / "fd"))  # noqa: PTH208 - names are enough
        return Usage(int(values["VmRSS:"]) / 1024, descriptors, int(values["Threads:"]))


class Probe:
    """The innocent caller."""

    def __init__(self, server: Server, uids: Sequence[str]) -> None:
        folder = [str(server.certs)] if server.certs else []
        command = ["tests.attacks.probe", server.url, str(server.process.pid), ",".join(uids), *folder]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        if self._out.readline().strip() != "ready":
            self.stop()
            raise RuntimeError(
                f"the innocent caller gets no answer; the server's log: {server.log.read_text()[-2000:]}"
            )

    def begin(self) -> None:
        self._tell("begin")

    def end(self) -> dict[str, Any]:
        self._tell("end")
        found: dict[str, Any] = json.loads(self._out.readline())
        return found

    def _tell(self, what: str) -> None:
        self._in.write(f"{what}\n")
        self._in.flush()

    def stop(self) -> None:
        self._process.communicate(timeout=_PATIENCE)


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Python module as a process, with its standard error in `log`."""
    with log.open("wb") as errors:
        process = subprocess.Popen([sys.executable, "-m", *command], stdin=subprocess.PIPE, stderr=errors)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def api_server(module: str, log: Path) -> Iterator[str]:
    """The URL of an API server: `python -m MODULE`, which prints "ready URL"."""
    with log.open("wb") as errors:
        command = [sys.executable, "-m", module, "--parent-pid", str(os.getpid())]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line.startswith("ready "):
            raise RuntimeError(f"{module} did not start: {log.read_text()[-2000:]}")
        yield line.split()[1]
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE)


def populate(api: httpx.Client) -> list[str]:
    """Creates the nodes, and the pods that the innocent caller asks for. Returns their UIDs."""
    for node in nodes(NODES):
        api.post("/api/v1/nodes", json=node).raise_for_status()
        name = node["metadata"]["name"]
        found = api.get(f"/api/v1/nodes/{name}").json()
        api.put(f"/api/v1/nodes/{name}/status", json={**found, "status": node["status"]}).raise_for_status()
    made = [api.post("/api/v1/namespaces/default/pods", json=probe(number)) for number in range(PROBES)]
    return [str(answer.raise_for_status().json()["metadata"]["uid"]) for answer in made]


@contextmanager
def waggle(scheme: Scheme, cluster: str, folder: Path, sections: dict[str, Any]) -> Iterator[Server]:
    """`waggle serve`, ready. `sections` of its configuration are merged into the usual ones."""
    port = free_port()
    while (health_port := free_port()) == port:
        pass
    server: dict[str, Any] = {"port": port, "health_port": health_port}
    certs = None
    if scheme == "https":
        certs = folder / "certs"
        write_certificates(certs)
        server["tls"] = {
            "cert_file": str(certs / "server.crt"),
            "key_file": str(certs / "server.key"),
            "client_ca_file": str(certs / "ca.crt"),
            "verb_clients": ["kube-scheduler"],
            "page_clients": ["kube-scheduler"],
            "reload_seconds": 0.5,
        }
    server |= sections.get("server", {})
    settings = {**sections, "cluster": {"server": cluster, **sections.get("cluster", {})}, "server": server}
    config = folder / "waggle.yaml"
    config.write_text(yaml.safe_dump(settings))
    log = folder / "waggle.log"
    with _process(["extender.cli", "serve", "--config", str(config)], log) as process:
        found = Server(process, scheme, port, health_port, certs, log)
        _until(lambda: _is_ready(found), "the server is not ready", found)
        yield found


@contextmanager
def uvicorn(cluster: str, folder: Path) -> Iterator[Server]:
    """A plain uvicorn with an application that does as little as can be: the floor that Waggle is compared with."""
    port, log = free_port(), folder / "uvicorn.log"
    with _process(["tests.attacks.plain", str(port)], log) as process:
        found = Server(process, "http", port, 0, None, log)
        _until(lambda: _accepts(port), f"uvicorn did not start (cluster {cluster})", found)
        yield found


@contextmanager
def granian(scheme: Scheme, cluster: str, folder: Path) -> Iterator[Server]:
    """Waggle's verbs behind Granian: see `granian_server.py`."""
    port, log = free_port(), folder / "granian.log"
    certs = None
    if scheme == "https":
        certs = folder / "certs"
        write_certificates(certs)
    command = ["tests.attacks.granian_server", cluster, str(port), *([str(certs)] if certs else [])]
    with _process(command, log) as process:
        found = Server(process, scheme, port, 0, certs, log)
        _until(lambda: _accepts(port), "Granian did not start", found)
        yield found


def write_certificates(folder: Path) -> Authority:
    """Two authorities in ca.crt, server.*, tls.* (kube-scheduler's), and other.* (somebody's) of the first.

    authority.crt is the first authority; old.* is a kube-scheduler of the second.
    """
    folder.mkdir()
    authority, old = Authority.new(), Authority.new()
    (folder / "authority.crt").write_bytes(authority.pair.certificate)
    (folder / "ca.crt").write_bytes(authority.pair.certificate + old.pair.certificate)
    pairs = {
        "server": authority.server(["localhost", "127.0.0.1"]),
        KUBE_SCHEDULER: authority.client("kube-scheduler"),
        "other": authority.client("system:node:gpu-00"),
        "old": old.client("kube-scheduler"),
    }
    for name, pair in pairs.items():
        (folder / f"{name}.crt").write_bytes(pair.certificate)
        (folder / f"{name}.key").write_bytes(pair.key)
    return authority


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _is_ready(server: Server) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{server.health_port}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _until(condition: Callable[[], bool], otherwise: str, server: Server) -> None:
    give_up = time.monotonic() + _PATIENCE
    while not condition():
        if server.process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"{otherwise}: {server.log.read_text()[-2000:]}")
        time.sleep(0.05)


class AttackedServers:
    """API server, attacked server and innocent caller, for one attack after the other. `close` ends them."""

    def __init__(
        self, scheme: Scheme, folder: Path, *, kind: str = "waggle", module: str = "", sections: dict[str, Any]
    ) -> None:
        folder.mkdir()
        with ExitStack() as stack:
            url = stack.enter_context(
                api_server(module or "extender.embedded.apiserver", folder / "apiserver.log"),
            )
            self.api = stack.enter_context(httpx.Client(base_url=url, timeout=30))
            uids = populate(self.api)
            match kind:
                case "uvicorn":
                    make = uvicorn(url, folder)
                case "granian":
                    make = granian(scheme, url, folder)
                case _:
                    make = waggle(scheme, url, folder, sections)
            self.server = stack.enter_context(make)
            self.probe = Probe(self.server, uids)
            stack.callback(self.probe.stop)
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()
