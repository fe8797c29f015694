"""The server of claims as a process: how fast it is over HTTP, how soon it is ready, and what it costs `/filter`.

    callers --HTTP--> waggle serve --HTTP--> API server          and beside it a client that lists and patches by itself

The API server is the embedded one, in a process of its own; `make e2e` prints the same beside a real one.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from extender.claims.writes.names import PHASE_LABEL
from extender.embedded.apiserver import spawn_sidecar
from tests.bench.client import Connection
from tests.bench.report import p99

_DEADLINE = 120.0
#: Callers at once, of Waggle and of the naive client.
_CALLERS = 16
Object = dict[str, Any]


@dataclass
class Rate:
    """Claims that were made, each released at once. Times are milliseconds of the callers."""

    name: str
    seconds: float
    times: list[float] = field(default_factory=list)
    #: Requests to the API server, as far as the client knows them.
    requests: int = 0
    conflicts: int = 0

    @property
    def per_second(self) -> float:
        return len(self.times) / self.seconds


@dataclass(frozen=True)
class Start:
    """A server that starts: seconds until all its pools are served, and its memory then, MiB."""

    pods: int
    pools: int
    seconds: float
    mebibytes: float


@dataclass(frozen=True)
class Beside:
    """Calls of `/filter`, in milliseconds: alone, and beside claims."""

    quiet: list[float]
    busy: list[float]
    claims_per_second: float

    @property
    def growth(self) -> float:
        return p99(self.busy) - p99(self.quiet)


class Cluster:
    """An API server with nodes and pools. The pods of each pool run on one of the nodes."""

    def __init__(self, url: str, nodes: int = 20) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=60)
        self.nodes = [f"n{number}" for number in range(nodes)]
        for name in self.nodes:
            status = {
                "allocatable": {"pods": "10000", "cpu": "64"},
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            self._post("/api/v1/nodes", {"metadata": {"name": name}, "status": status})

    def fill(self, pool: str, pods: int, node: str) -> None:
        """Pods of a pool, without a workload: the stand-in's ReplicaSet controller looks at all of them at each change,
        which would take more time than all else that is measured."""
        labels = {"pool": pool, PHASE_LABEL: "idle"}
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "warm:1"}]}
        for number in range(pods):
            metadata = {"name": f"{pool}-{number}", "labels": labels}
            self._post("/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec})

    def until_running(self, pods: int) -> None:
        end = time.monotonic() + _DEADLINE
        while time.monotonic() < end:
            found = self.http.get("/api/v1/pods", params={"fieldSelector": "status.phase=Running"}).json()["items"]
            if len(found) >= pods:
                return
            time.sleep(0.2)
        raise RuntimeError(f"{pods} pods do not run")

    def _post(self, path: str, body: Object) -> None:
        answer = self.http.post(path, json=body)
        if answer.status_code != 201:
            raise RuntimeError(answer.text)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """An API server in a process of its own."""
    with spawn_sidecar() as sidecar:
        made = Cluster(sidecar.url)
        with closing(made.http):
            yield made


@contextmanager
def server(api: str, pools: list[str], **sections: Any) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`waggle serve` for these pools, which recycle. Yields its URL and its process, before it is ready."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        config, told = Path(folder) / "waggle.yaml", Path(folder) / "url"
        named = [{"name": name, "selector": {"pool": name}, "mode": "recycle"} for name in pools]
        settings = {
            "server": {"port": 0},
            "cluster": {"server": api, "compare_seconds": 0},
            "claims": {"enabled": True, "pools": named},
            "log": {"level": "warning"},
            **sections,
        }
        config.write_text(json.dumps(settings), encoding="utf-8")
        command = [sys.executable, "-m", "extender.cli", "serve", "--config", str(config), "--url-file", str(told)]
        process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        stack.callback(process.terminate)
        end = time.monotonic() + _DEADLINE
        while not told.exists() and time.monotonic() < end:
            time.sleep(0.005)
        yield told.read_text(encoding="utf-8"), process


def _until_idle(url: str, pools: list[str], each: int) -> None:
    end = time.monotonic() + _DEADLINE
    with httpx.Client(base_url=url, timeout=30) as http:
        while time.monotonic() < end:
            with suppress(httpx.HTTPError):
                found = {pool["name"]: pool["idle"] for pool in http.get("/v1/pools").json().get("items", [])}
                if found == dict.fromkeys(pools, each):
                    return
            time.sleep(0.01)
    raise RuntimeError("the pools are not idle")


def start(pods: int, pools: int, say: Callable[[str], None]) -> Start:
    """A server of claims alone, from its command to all pools served, with so many idle pods in all."""
    say(f"making {pods:,} pods")
    names = [f"pool{number}" for number in range(pools)]
    with cluster() as made:
        for number, name in enumerate(names):
            made.fill(name, pods // pools, made.nodes[number % len(made.nodes)])
        made.until_running(pods)
        say(f"starting with {pods:,} pods")
        began = time.monotonic()
        with server(made.url, names, extender={"enabled": False}) as (url, process):
            _until_idle(url, names, pods // pools)
            seconds = time.monotonic() - began
            return Start(pods, pools, seconds, _memory(process.pid))


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def rates(pods: int, seconds: float, say: Callable[[str], None]) -> list[Rate]:
    """Waggle and the naive client in turn, each with as many callers, on the same pool."""
    with cluster() as made:
        made.fill("warm", pods, made.nodes[0])
        made.until_running(pods)
        say("the naive client")
        naive = _in_threads("naive", seconds, lambda rate, end, lock: _naive(made.url, rate, end, lock))
        with server(made.url, ["warm"], extender={"enabled": False}) as (url, _):
            _until_idle(url, ["warm"], pods)
            say("claims over HTTP")
            waggle = _in_threads("waggle", seconds, lambda rate, end, lock: _caller(url, rate, end, lock))
        return [waggle, naive]


def _in_threads(name: str, seconds: float, run: Callable[[Rate, float, threading.Lock], None]) -> Rate:
    rate, lock, end = Rate(name, seconds), threading.Lock(), time.monotonic() + seconds
    threads = [threading.Thread(target=run, args=(rate, end, lock)) for _ in range(_CALLERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return rate


def _caller(url: str, rate: Rate, end: float, lock: threading.Lock, pause: float = 0.0) -> None:
    """Claim and release, again and again. A claim is two requests of Waggle's to the API server, with its end."""
    body = b'{"wait_seconds": 10}'
    with closing(Connection(url)) as connection:
        while (began := time.monotonic()) < end:
            claim = json.loads(connection.call("POST", "/v1/pools/default/warm/claims", body))["id"]
            taken = (time.monotonic() - began) * 1e3
            connection.call("DELETE", f"/v1/claims/{claim}")
            with lock:
                rate.times.append(taken)
                rate.requests += 2
            if pause:
                time.sleep(max(0.0, began + pause - time.monotonic()))


def _naive(api: str, rate: Rate, end: float, lock: threading.Lock) -> None:
    """List the idle pods, patch one with the version that was listed, list again on a conflict; release by a patch."""
    query = {"labelSelector": f"pool=warm,{PHASE_LABEL}=idle"}
    with httpx.Client(base_url=api, timeout=30) as http:
        while (began := time.monotonic()) < end:
            requests = conflicts = 0
            while True:
                found = http.get("/api/v1/namespaces/default/pods", params=query).json()["items"]
                requests += 2
                if not found:
                    continue
                pod = random.choice(found)["metadata"]
                if _patch(http, pod["name"], "running", pod["resourceVersion"]) == 200:
                    break
                conflicts += 1
            taken = (time.monotonic() - began) * 1e3
            _patch(http, pod["name"], "idle", None)
            with lock:
                rate.times.append(taken)
                rate.requests += requests + 1
                rate.conflicts += conflicts


def _patch(http: httpx.Client, name: str, phase: str, version: str | None) -> int:
    metadata: Object = {"labels": {PHASE_LABEL: phase}}
    if version is not None:
        metadata["resourceVersion"] = version
    body = json.dumps({"metadata": metadata})
    headers = {"content-type": "application/merge-patch+json"}
    return http.patch(f"/api/v1/namespaces/default/pods/{name}", content=body, headers=headers).status_code


def beside(claims_per_second: float, seconds: float, say: Callable[[str], None]) -> Beside:
    """/filter of one process that also serves claims: alone, and beside so many claims a second."""
    with cluster() as made:
        made.fill("warm", 200, made.nodes[0])
        made.until_running(200)
        with server(made.url, ["warm"]) as (url, _):
            _until_idle(url, ["warm"], 200)
            pod = {
                "metadata": {"name": "p", "namespace": "default", "uid": "u-p"},
                "spec": {"containers": [{"name": "c"}]},
            }
            offer = json.dumps({"Pod": pod, "NodeNames": made.nodes}).encode()
            say("/filter alone")
            quiet = _filters(url, offer, seconds)
            say(f"/filter beside {claims_per_second:g} claims/s")
            # In a process of their own: threads of this one would take the interpreter from the calls of /filter.
            command = [sys.executable, "-m", "tests.bench.claims.served", url, str(claims_per_second), str(seconds)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as callers:
                time.sleep(1.0)
                busy = _filters(url, offer, seconds - 1.0)
                told, _ = callers.communicate()
            return Beside(quiet, busy, float(told))


def _call_at_a_rate(url: str, claims_per_second: float, seconds: float) -> float:
    """Claim and release at this rate, if the server can. Returns the claims a second."""
    pause = _CALLERS / claims_per_second
    rate = _in_threads("beside", seconds, lambda rate, end, lock: _caller(url, rate, end, lock, pause))
    return rate.per_second


def _filters(url: str, offer: bytes, seconds: float) -> list[float]:
    """Calls of /filter, one each 10 ms as kube-scheduler would at a hundred pods a second."""
    times, end = [], time.monotonic() + seconds
    with closing(Connection(url)) as connection:
        while time.monotonic() < end:
            began = time.perf_counter()
            connection.call("POST", "/filter", offer)
            times.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.01)
    return times


if __name__ == "__main__":
    print(_call_at_a_rate(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
