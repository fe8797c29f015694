"""The demo's three processes, each as in real life: an API server, Waggle, a kube-scheduler. All on loopback.

Promises: what was started is stopped, also if the demo is interrupted; a process that ends by itself is noticed, and
its last words are shown.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

import yaml

from algorithm.parent_process import end_with_parent
from extender.demo.workloads import GPU, Object
from extender.embedded.apiserver.kubeconfig import write_kubeconfig
from extender.embedded.apiserver.sidecar import Sidecar, spawn_sidecar
from extender.kube.client.api import ApiError, ApiServer
from extender.kube.client.kubeconfig import connect
from extender.settings import ClusterSettings

USUAL_PORT = 9096
_PATIENCE = 30.0


class CastError(RuntimeError):
    """A process did not do what it should; the message ends with what it said last."""


class Process:
    """One child process. What it prints goes to a file, of which the end is shown if it fails."""

    def __init__(self, name: str, command: list[str], folder: Path, *, verbose: bool) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._file = None if verbose else self._log.open("ab")
        self._child = subprocess.Popen(  # noqa: S603 - our own modules
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=self._file,
            start_new_session=True,
            # Nothing else runs in this process at that time.
            preexec_fn=partial(end_with_parent, os.getpid(), signal.SIGTERM),  # noqa: PLW1509
        )

    def check(self) -> None:
        """Raises CastError if it has ended."""
        code = self._child.poll()
        if code is not None:
            raise CastError(f"{self.name} ended with status {code}: {self.last_words()}")

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:].strip() if self._log.exists() else ""

    def kill(self) -> None:
        """As a machine that loses power."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._child.poll() is None:
            os.kill(self._child.pid, how)
            try:
                self._child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        if self._file is not None:
            self._file.close()


class Cast:
    """The three processes and the connections to them. A context manager that ends them all."""

    def __init__(
        self,
        *,
        port: int,
        verbose: bool,
        kube_scheduler: Path | None = None,
        sections: Object | None = None,
        record: Path | None = None,
    ) -> None:
        """`sections` are those of Waggle's configuration that are not the demo's usual ones. `record`: the folder that
        Waggle records into."""
        self._record = record
        self._verbose = verbose
        self._sections = sections or {}
        self._kube_scheduler = kube_scheduler
        self._folder = tempfile.TemporaryDirectory(prefix="waggle-demo-")
        self.folder = Path(self._folder.name)
        self.kubeconfig = self.folder / "kubeconfig"
        self._sidecar: Sidecar | None = None
        self._waggle: Process | None = None
        self._scheduler: Process | None = None
        self._wanted_port = port
        #: Where Waggle serves; known once it does.
        self.url = ""
        self.cluster_url = ""
        #: The kubectl to advise, if there is one.
        self.kubectl = "kubectl" if which("kubectl") else ""
        self._api: ApiServer | None = None
        self._face: ApiServer | None = None

    # -- entrances and exits ----------------------------------------------------------------------------------------

    def start_cluster(self, objects: list[Object], arguments: Sequence[str] = ()) -> None:
        """Starts the API server with these arguments, and creates the objects, such as nodes."""
        self._sidecar = spawn_sidecar(*arguments)
        self.cluster_url = self._sidecar.url
        write_kubeconfig(self.kubeconfig, self.cluster_url)
        self._api = connect(ClusterSettings(server=self.cluster_url))
        for item in objects:
            self.create(item)

    def start_waggle(self) -> None:
        """Starts it, or starts it again where it was. Raises CastError if it does not serve."""
        if self._face is not None:
            self._start_waggle(int(self.url.rpartition(":")[2]))
            return
        try:
            self._start_waggle(self._wanted_port or USUAL_PORT)
        except CastError as error:
            if "cannot listen" not in str(error):
                raise
            if self._waggle is not None:
                self._waggle.stop()
            if self._wanted_port:
                raise CastError(
                    f"port {self._wanted_port} of 127.0.0.1 is taken; without --port any free one is used"
                ) from error
            self._start_waggle(0)
        self._face = connect(ClusterSettings(server=self.url))

    def _start_waggle(self, port: int) -> None:
        config, url_file = self.folder / "waggle.yaml", self.folder / "url"
        url_file.unlink(missing_ok=True)
        section = self._sections.get("cluster", {})
        cluster = {"request_timeout_seconds": 5, **section, **self.waggle_cluster()}
        config.write_text(
            yaml.safe_dump(
                {
                    "server": {"port": port},
                    "holds": {"lease_seconds": 20, "verify_seconds": 1},
                    **self._sections,
                    "cluster": cluster,
                }
            )
        )
        arguments = ["extender.cli", "serve", "--config", str(config), "--url-file", str(url_file)]
        arguments += ["--record", str(self._record.resolve())] if self._record is not None else []
        self._waggle = self._spawn("waggle", arguments)
        deadline = time.monotonic() + _PATIENCE
        while not url_file.exists():
            self._waggle.check()
            if time.monotonic() > deadline:
                raise CastError(f"Waggle did not serve within {_PATIENCE:g} s: {self._waggle.last_words()}")
            time.sleep(0.02)
        self.url = url_file.read_text(encoding="utf-8")

    def waggle_cluster(self) -> Object:
        """How Waggle reaches the API server: fields of its configuration's `cluster`."""
        return {"server": self.cluster_url}

    def kill_waggle(self) -> None:
        assert self._waggle is not None
        self._waggle.kill()

    def start_scheduler(self) -> None:
        """The stand-in, or the real one if there is one. Raises CastError if it cannot be executed."""
        config = self.folder / "kube-scheduler.yaml"
        if self._kube_scheduler is None:
            config.write_text(yaml.safe_dump(scheduler_configuration(self.url)))
            arguments = ["extender.embedded.kubescheduler", "--server", self.cluster_url, "--config", str(config)]
            self._scheduler = self._spawn("kube-scheduler", arguments)
            return
        config.write_text(yaml.safe_dump(scheduler_configuration(self.url, kubeconfig=self.kubeconfig)))
        command = [str(self._kube_scheduler), "--config", str(config), *real_scheduler_flags(self.folder)]
        try:
            self._scheduler = Process("kube-scheduler", command, self.folder, verbose=self._verbose)
        except OSError as error:
            raise CastError(f"{self._kube_scheduler} cannot be started: {error.strerror}") from error

    def _spawn(self, name: str, arguments: list[str]) -> Process:
        return Process(name, [sys.executable, "-m", *arguments], self.folder, verbose=self._verbose)

    def wait_ready(self) -> None:
        """Until Waggle says that it is ready. Raises CastError."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            self.check()
            assert self._face is not None
            try:
                if self._face.request("GET", "/readyz").status == 200:
                    return
            except ApiError:
                pass
            time.sleep(0.05)
        said = self._waggle.last_words() if self._waggle else ""
        raise CastError(f"Waggle was not ready within {_PATIENCE:g} s: {said}")

    def check(self) -> None:
        for process in (self._waggle, self._scheduler):
            if process is not None:
                process.check()

    def close(self) -> None:
        for process in (self._scheduler, self._waggle):
            if process is not None:
                process.stop()
        for connection in (self._face, self._api):
            if connection is not None:
                connection.close()
        if self._sidecar is not None:
            self._sidecar.stop()
        self._folder.cleanup()

    # -- conversation -----------------------------------------------------------------------------------------------

    def create(self, item: Object) -> None:
        """Creates an object in the cluster. Raises CastError with the API server's words."""
        kind = item["kind"]
        namespace = item["metadata"].get("namespace", "default")
        paths = {
            "Node": "/api/v1/nodes",
            "Pod": f"/api/v1/namespaces/{namespace}/pods",
            "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
            "Deployment": f"/apis/apps/v1/namespaces/{namespace}/deployments",
            "StatefulSet": f"/apis/apps/v1/namespaces/{namespace}/statefulsets",
            "VPod": f"/apis/waggle.dev/v1alpha1/namespaces/{namespace}/vpods",
            "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        }
        path = paths.get(kind)
        if path is None:
            raise CastError(f"{kind} {item['metadata'].get('name')}: the demo creates {', '.join(paths)} only")
        self._ask("POST", path, item)

    def set_faults(self, faults: list[Any]) -> None:
        self._ask("POST", "/debug/faults", faults)

    def faults_fired(self) -> int:
        """How many injected faults have struck so far."""
        return sum(rule["fired"] for rule in self._ask("GET", "/debug/faults"))

    def pods(self) -> dict[str, Object]:
        """The cluster's pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.read("/api/v1/pods")["items"]}

    def read(self, path: str) -> Any:
        """Return what the API server has there. Raises CastError."""
        return self._ask("GET", path)

    def patch(self, path: str, change: object) -> None:
        """Change an object by a merge patch. Raises CastError."""
        self._ask("PATCH", path, change, content_type="application/merge-patch+json")

    def _ask(self, method: str, path: str, body: object = None, *, content_type: str = "application/json") -> Any:
        assert self._api is not None
        raw = None if body is None else json.dumps(body).encode()
        answer = self._api.request(method, path, body=raw, content_type=content_type)
        if not answer.ok:
            raise CastError(f"{method} {path}: {answer.status} {answer.message}")
        return json.loads(answer.body or b"null")

    def waggle(self, path: str) -> Any:
        """One of Waggle's own pages. Raises CastError."""
        assert self._face is not None
        answer = self._face.request("GET", path)
        if not answer.ok:
            raise CastError(f"GET {self.url}{path}: {answer.status} {answer.body[:200]!r}")
        return json.loads(answer.body)


def real_scheduler_flags(folder: Path) -> list[str]:
    """What a kube-scheduler needs beside its configuration to keep to loopback and to `folder`."""
    return ["--bind-address=127.0.0.1", f"--secure-port={_free_port()}", f"--cert-dir={folder}"]


def scheduler_configuration(url: str, *, kubeconfig: Path | None = None) -> Object:
    """The KubeSchedulerConfiguration of the demo; docs/quickstart.md explains each line.

    `kubeconfig` is for a real kube-scheduler, which has to be told to speak JSON and takes a lease; the stand-in is
    told its API server on the command line.
    """
    connection = {"kubeconfig": str(kubeconfig), "contentType": "application/json"}
    real = {"clientConnection": connection, "leaderElection": {"leaderElect": True}} if kubeconfig else {}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **real,
        "percentageOfNodesToScore": 100,
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "weight": 1,
                "nodeCacheCapable": True,
                "httpTimeout": "10s",
                "managedResources": [],
            }
        ],
    }


def _free_port() -> int:
    try:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free: int = probe.getsockname()[1]
            return free
    except OSError as error:
        raise CastError("no port of 127.0.0.1 is free") from error


__all__ = ["GPU", "Cast", "CastError", "real_scheduler_flags", "scheduler_configuration"]
