"""Runs what Deployments say, on this machine: a kubelet, a cluster's DNS and its Services, as far as Waggle needs them.

A pod's container becomes a process with the arguments, the environment, the ConfigMaps, the Secrets and the service
account that its manifest says. What differs from a pod is what a process cannot have: paths of mounts lead into a
folder, each pod has an address of its own out of 127.0.0.0/8, and the service account's token is in a kubeconfig.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.processes import Process

Object = dict[str, Any]
#: How a container is run: the name of the container, its arguments and address, to the command.
Runner = Callable[[list[str], str, Path], Sequence[str | Path]]
#: A file out of a ConfigMap, changed for a process: name and content, address and kubeconfig of the pod.
Adapter = Callable[[str, Object, str, Path], Object]


class Kubelets:
    """All pods of one namespace. `look` is to be called again and again, in the main thread."""

    def __init__(
        self, plane: ControlPlane, folder: Path, namespace: str, runners: Mapping[str, Runner], adapt: Adapter
    ) -> None:
        self._plane, self._folder, self._namespace = plane, folder, namespace
        self._runners, self._adapt = runners, adapt
        self._http = plane.client()
        self._running: dict[str, Process] = {}
        #: The address of each pod that ever ran.
        self.addresses: dict[str, str] = {}
        self.services = Services(plane, namespace, self.addresses)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.stop()
        self.services.close()
        self._http.close()

    def look(self) -> None:
        """Starts what was bound to a node, ends what is being deleted. Raises ProcessError if one ended by itself."""
        pods = {pod["metadata"]["name"]: pod for pod in self._get("pods")["items"]}
        for name, process in list(self._running.items()):
            if name not in pods or "deletionTimestamp" in pods[name]["metadata"]:
                process.stop()
                del self._running[name]
            else:
                process.check()
        for name, pod in pods.items():
            starts = pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
            if starts and name not in self._running and name not in self.addresses:
                self._start(pod)

    def names(self) -> list[str]:
        return sorted(self._running)

    def _get(self, path: str) -> Object:
        found: Object = describe(self._http.get(f"/api/v1/namespaces/{self._namespace}/{path}"))
        return found

    def _start(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        address = self.addresses[name] = f"127.77.{len(self.addresses)}.1"
        home = self._folder / name
        home.mkdir()
        kubeconfig = self._kubeconfig(home, pod["spec"]["serviceAccountName"])
        folders = {mount["mountPath"]: home / mount["name"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}

        def moved(text: str) -> str:
            for path in sorted(folders, key=len, reverse=True):
                text = text.replace(f"{path}/", f"{folders[path]}/")
            return text

        for mount in container["volumeMounts"]:
            self._fill(home / mount["name"], volumes[mount["name"]], moved, address, kubeconfig)
        said = [*container.get("command", ()), *container.get("args", ())]
        command = self._runners[container["name"]]([moved(word) for word in said], address, home)
        environment = {
            "POD_NAME": name,
            "POD_NAMESPACE": self._namespace,
            "KUBECONFIG": str(kubeconfig),
            "HTTPS_PROXY": self.services.url,
            "NO_PROXY": "127.0.0.1",
        }
        self._running[name] = Process(name, command, home.with_suffix(".log"), environment=environment)

    def _fill(self, folder: Path, volume: Object, moved: Callable[[str], str], address: str, kubeconfig: Path) -> None:
        folder.mkdir()
        if "secret" in volume:
            for key, value in self._get(f"secrets/{volume['secret']['secretName']}")["data"].items():
                (folder / key).write_bytes(base64.b64decode(value))
        elif "configMap" in volume:
            for key, text in self._get(f"configmaps/{volume['configMap']['name']}")["data"].items():
                content = self._adapt(key, yaml.safe_load(moved(text)), address, kubeconfig)
                (folder / key).write_text(yaml.safe_dump(content), encoding="utf-8")

    def _kubeconfig(self, home: Path, account: str) -> Path:
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        token = describe(self._http.post(path, json={"spec": {"expirationSeconds": 3600}}))["status"]["token"]
        cluster = {"server": self._plane.url, "certificate-authority": str(self._plane.authority.certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": self._namespace}}],
            "current-context": "c",
        }
        made = home / "kubeconfig"
        made.write_text(yaml.safe_dump(content), encoding="utf-8")
        return made


class Services:
    """An HTTPS proxy to which `NAME.NAMESPACE.svc` and cluster IPs lead to a pod that the Service selects."""

    def __init__(self, plane: ControlPlane, namespace: str, addresses: Mapping[str, str]) -> None:
        self._namespace, self._addresses = namespace, addresses
        self._http = plane.client()
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._http.close()

    def behind(self, host: str) -> list[str]:
        """The addresses of the pods behind a Service, which is named by DNS or by its cluster IP."""
        items = describe(self._http.get(f"/api/v1/namespaces/{self._namespace}/services"))["items"]
        for item in items:
            meta, spec = item["metadata"], item["spec"]
            if host in (f"{meta['name']}.{self._namespace}.svc", meta["name"], spec.get("clusterIP")):
                wanted = ",".join(f"{key}={value}" for key, value in spec["selector"].items())
                path = f"/api/v1/namespaces/{self._namespace}/pods"
                pods = describe(self._http.get(path, params={"labelSelector": wanted}))["items"]
                names = [pod["metadata"]["name"] for pod in pods]
                return [self._addresses[name] for name in names if name in self._addresses]
        return []


def _handler(services: Services) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            verb, target, _ = self.rfile.readline().decode().split()
            while self.rfile.readline().strip():
                pass
            host, _, port = target.rpartition(":")
            found = services.behind(host) if verb == "CONNECT" else []
            if not found:
                self.wfile.write(b"HTTP/1.1 503 nobody is behind it\r\n\r\n")
                return
            with socket.create_connection((found[0], int(port))) as there:
                self.wfile.write(b"HTTP/1.1 200 connected\r\n\r\n")
                back = threading.Thread(target=_pump, args=(there, self.connection), daemon=True)
                back.start()
                _pump(self.connection, there)
                back.join()

    return Handler


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def run_while(
    look: Callable[[], object], command: Sequence[str], *, seconds: float = 90, **given: Any
) -> tuple[int, str]:
    """Runs a command to its end, looking after other things meanwhile. Its status and output.

    One that takes longer than `seconds` is killed, with all that it started.
    """
    deadline = time.monotonic() + seconds
    given["start_new_session"] = True
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **given) as child:
        said: list[str] = []
        assert child.stdout is not None
        reader = threading.Thread(target=lambda: said.append(child.stdout.read() if child.stdout else ""))
        reader.start()
        while reader.is_alive():
            look()
            reader.join(0.1)
            if time.monotonic() > deadline:
                os.killpg(child.pid, signal.SIGKILL)
        return child.wait(), "".join(said)
