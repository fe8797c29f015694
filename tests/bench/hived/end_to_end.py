"""End to end: /filter of a real `waggle serve` process over loopback, and an API server in a process of its own.

Pods are announced through the watch before kube-scheduler's question about them comes; when a job is measured, its pods
are deleted through the watch until its group is gone. Proposals are not bound: as with the original, what is measured
is deciding, not writing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from extender.embedded.apiserver.sidecar import spawn_sidecar
from tests.bench.client import Connection, proposed
from tests.bench.hived import workload
from tests.bench.hived.figures import Figure
from tests.bench.hived.workload import DOES_NOT_FIT, KINDS, PREFIX, SPEC, Job
from tests.bench.threads import cpu_by_thread

#: Seconds between two calls: kube-scheduler has work of its own for each pod.
_THINK = 0.002
_STATUSES = 5
#: The process is started so often (at most once for each job of a kind); the best counts, as it did for the original.
_STARTS = 3
_FILL = "fill"
_PODS = "/api/v1/namespaces/default/pods"
_SERVER = """\
server: {port: 0}
cluster: {server: "%s"}
# Nothing is bound here, so nothing may be taken back.
holds: {lease_seconds: 36000}
algorithm:
  name: hived
  settings:
"""


def measure(machines: int, levels: int, jobs: int, say: Callable[[str], None]) -> list[Figure]:
    """All figures of one cluster, `jobs` jobs of each kind."""
    size = f"{machines:,} machines, {levels} levels"
    with ExitStack() as stack:
        say(f"end to end, {size}: nodes")
        api_server = stack.enter_context(spawn_sidecar("--no-kubelet", "--no-controllers"))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(closing(Connection(api_server.url)))
        for number in range(machines):
            cluster.call("POST", "/api/v1/nodes", _node(workload.node_name(number)))
        config = directory / "waggle.yaml"
        settings = textwrap.indent(workload.config(machines, levels), "    ")
        config.write_text(_SERVER % api_server.url + settings, encoding="utf-8")
        say(f"end to end, {size}: start")
        starts = []
        for _ in range(min(_STARTS, jobs) - 1):
            with _serving(config) as server:
                starts.append(server.seconds)
        server = stack.enter_context(_serving(config))
        starts.append(server.seconds)
        extender = stack.enter_context(closing(Connection(server.url)))
        say(f"end to end, {size}")
        taken = _EndToEnd(machines, cluster, extender, server.pid).run(jobs)
        taken["start to ready", ""] = [min(starts) * 1e3]
    return [Figure(machines, levels, what, kind, ms, end_to_end=True) for (what, kind), ms in taken.items()]


class _Server(NamedTuple):
    """`seconds` from the start of its process until it was ready."""

    url: str
    pid: int
    seconds: float


@contextmanager
def _serving(config: Path) -> Iterator[_Server]:
    url_file = config.with_name("url")
    url_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "extender.cli", "serve", "--config", str(config), "--url-file", str(url_file)]
    with config.with_name("log").open("ab") as log:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = _when_ready(process, url_file)
            yield _Server(url, process.pid, time.monotonic() - began)
        finally:
            process.terminate()
            process.wait(30)


def _when_ready(process: subprocess.Popen[bytes], url_file: Path) -> str:
    while process.poll() is None:
        time.sleep(0.005)
        url = url_file.read_text() if url_file.exists() else ""
        if not url:
            continue
        with closing(Connection(url.strip())) as connection:
            if _is_answered(connection, "/readyz"):
                return url.strip()
    raise RuntimeError(f"the server ended: {url_file.with_name('log').read_text()[-2000:]}")


def _is_answered(connection: Connection, path: str) -> bool:
    try:
        connection.call("GET", path)
    except RuntimeError:
        return False
    return True


class _EndToEnd:
    """The caller, as kube-scheduler is: one connection, one question after the other."""

    def __init__(self, machines: int, cluster: Connection, extender: Connection, server: int) -> None:
        self._machines, self._server = machines, server
        self._cluster, self._extender = cluster, extender
        names = [workload.node_name(number) for number in range(machines)]
        self._body = b'{"Pod":%s,"NodeNames":' + msgspec.json.encode(names) + b"}"
        self._taken: dict[tuple[str, str], list[float]] = {}
        self._serial = count()

    def run(self, jobs: int) -> dict[tuple[str, str], list[float]]:
        """Milliseconds by what was measured and kind of job."""
        for job in workload.fill(self._machines):
            self._place(job, _FILL)
        for kind in KINDS:
            for turn in range(jobs):
                job = workload.timed_job(kind, turn, self._machines)
                self._clear(*self._place(job, kind))
        for turn in range(max(_STATUSES, jobs // 4)):
            pods = self._announce(workload.timed_job(DOES_NOT_FIT, turn, self._machines))[1]
            answer = self._filter(pods[0], "filter first", DOES_NOT_FIT)
            assert b'"NodeNames":[]' in answer[:100], answer[:300]
        self._look()
        filled = [self._taken.get((what, _FILL), []) for what in ("filter first", "filter others")]
        known = {key: ms for key, ms in self._taken.items() if key[1] != _FILL}
        return {**known, ("fill", ""): [sum(ms for taken in filled for ms in taken)]}

    def _announce(self, job: Job) -> tuple[str, list[bytes]]:
        """The group's name, and its pods as the API server has them."""
        group = f"group-{next(self._serial)}"
        number = min(job.pods, workload.DEVICES)
        pods = [
            self._cluster.call("POST", _PODS, _pod(f"{group}-{each}", job.annotation(group))) for each in range(number)
        ]
        time.sleep(_THINK)
        return group, pods

    def _filter(self, pod: bytes, what: str, kind: str) -> bytes:
        time.sleep(_THINK)
        body = self._body % pod
        cpu, began = _cpu_ms(self._server), time.perf_counter()
        answer = self._extender.call("POST", "/v1/extender/filter", body)
        self._note(what, kind, (time.perf_counter() - began) * 1e3)
        if cpu is not None:
            self._note(f"CPU of {what}", kind, (_cpu_ms(self._server) or cpu) - cpu)
        return answer

    def _note(self, what: str, kind: str, ms: float) -> None:
        self._taken.setdefault((what, kind), []).append(ms)

    def _place(self, job: Job, kind: str) -> tuple[str, int]:
        """The job's group and its number of pods."""
        group, pods = self._announce(job)
        for number, pod in enumerate(pods):
            proposed(self._filter(pod, "filter others" if number else "filter first", kind))
        return group, len(pods)

    def _clear(self, group: str, pods: int) -> None:
        for number in range(pods):
            self._cluster.call("DELETE", f"{_PODS}/{group}-{number}?gracePeriodSeconds=0")
        give_up = time.monotonic() + 60
        while _is_answered(self._extender, f"/v1/inspect/affinitygroups/{quote(group)}"):
            if time.monotonic() > give_up:
                raise RuntimeError(f"{group} does not end")
            time.sleep(_THINK)

    def _look(self) -> None:
        """One more job before each look, as somebody would who watches a cluster at work."""
        for turn in range(_STATUSES):
            placed = self._place(workload.timed_job("1x1", turn, self._machines), "1x1")
            time.sleep(_THINK)
            began = time.perf_counter()
            self._extender.call("GET", "/v1/inspect/clusterstatus")
            self._note("GET clusterstatus", "", (time.perf_counter() - began) * 1e3)
            self._clear(*placed)


def _cpu_ms(pid: int) -> float | None:
    """What all threads of the process have used so far; None where the kernel does not tell."""
    used = cpu_by_thread(pid)
    return sum(used.values()) * 1e3 if used else None


def _node(name: str) -> bytes:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return _encode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})


def _pod(name: str, annotation: str) -> bytes:
    marker = {PREFIX + "pod-scheduling-enable": "1"}
    container = {"name": "main", "image": "train", "resources": {"limits": marker, "requests": marker}}
    metadata = {"name": name, "annotations": {SPEC: annotation}}
    return _encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})


def _encode(obj: dict[str, Any]) -> bytes:
    return json.dumps(obj).encode()
