"""The reflector through long random mixtures of faults: in the end the sink has what the API server has."""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import pytest

from algorithm.model import Pod
from extender.kube.client.api import ApiServer
from extender.kube.client.backoff import BackoffSettings
from extender.kube.informers.reflector import PODS, Change, ChangeKind, Reflector, Timing
from tests.support.apiserver.kube_objects import bookmark, event, expired, pod, pod_list
from tests.support.apiserver.scripted_server import WAIT, Closed, Peer, Request, ScriptedServer, reply, status

FAULTS = 30
TIMING = Timing(
    list_page=0.15, watch_silence=0.15, backoff=BackoffSettings(shortest=0.001, longest=0.01, healthy=0.001)
)

pytestmark = pytest.mark.usefixtures("read_in")


class UnreliableServer:
    """Pods with a history. Each list and watch draws a fault; the draws come from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.changed = threading.Condition()
        self.pods: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[int, dict[str, Any]]] = []
        self.version = 1
        self.faulty = True
        self.faults: dict[str, int] = {}
        self._snapshots: dict[str, list[dict[str, Any]]] = {}

    def write(self) -> None:
        with self.changed:
            self.version += 1
            name = f"p{self.rng.randrange(12)}"
            known = self.pods.get(name)
            if known is not None and self.rng.random() < 0.4:
                del self.pods[name]
                gone = pod(name, self.version, uid=known["metadata"]["uid"])
                self.log.append((self.version, event("DELETED", gone)))
            else:
                uid = known["metadata"]["uid"] if known else f"uid-{self.version}"
                self.pods[name] = pod(name, self.version, uid=uid, node=f"n{self.version}")
                self.log.append((self.version, event("MODIFIED" if known else "ADDED", self.pods[name])))
            self.changed.notify_all()

    def fault(self, *kinds: str) -> str:
        with self.changed:
            kind = self.rng.choice(kinds) if self.faulty and self.rng.random() < 0.5 else ""
            if kind:
                self.faults[kind] = self.faults.get(kind, 0) + 1
            return kind

    def list(self, peer: Peer, request: Request) -> None:
        kind = self.fault("500", "429", "410", "drop", "silence", "broken page")
        if kind in ("500", "429", "410"):
            return status(int(kind), "fault", Retry_After="0")(peer, request)
        if kind == "drop":
            raise Closed
        if kind == "silence":
            peer.hang()
        token = request.query.get("continue", "")
        with self.changed:
            version, _, start = token.partition(":") if token else (str(self.version), "", "0")
            items = self._snapshots.setdefault(version, list(self.pods.values()))
        page = items[int(start) : int(start) + 4]
        more = f"{version}:{int(start) + 4}" if int(start) + 4 < len(items) else ""
        body = json.dumps(pod_list(*page, version=version, more=more)).encode()
        return reply(200, body[:-1] if kind == "broken page" else body)(peer, request)

    def watch(self, peer: Peer, request: Request) -> None:
        version = int(request.query["resourceVersion"])
        peer.start_chunks()
        while not peer.stopped.is_set():
            with self.changed:
                if self.version == version:
                    self.changed.wait(0.05)
                fresh = [entry for entry in self.log if entry[0] > version]
            for at, what in fresh:
                self._send(peer, at, what)
                version = at
            peer.chunk(json.dumps(bookmark(version)).encode() + b"\n")

    def _send(self, peer: Peer, at: int, what: dict[str, Any]) -> None:
        line = json.dumps(what).encode() + b"\n"
        match self.fault("drop", "cut", "silence", "expired", "garbage", "twice", "unknown", "old", "half", "end"):
            case "drop":
                raise Closed
            case "cut":
                peer.chunk(line[: len(line) // 2])
                raise Closed
            case "silence":
                peer.hang()
            case "expired":
                peer.chunk(json.dumps(expired()).encode() + b"\n")
            case "garbage":
                peer.chunk(b'{"type":"ADDED","object":{"metadata"\n')
            case "twice":
                line = line + line
            case "unknown":
                line = json.dumps(event("MOVED", {"metadata": {}})).encode() + b"\n" + line
            case "old":
                with self.changed:
                    line = line + json.dumps(self.rng.choice([old for v, old in self.log if v <= at])).encode() + b"\n"
            case "half":
                peer.chunk(line[:10])
                line = line[10:]
            case "end":
                peer.end_chunks()
                raise Closed
        peer.chunk(line)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_the_sink_ends_with_what_the_server_has(server: ScriptedServer, api: ApiServer, seed: int) -> None:
    truth = UnreliableServer(seed)
    mirror: dict[str, Pod] = {}
    sink_faults = random.Random(seed)

    def sink(batch: list[Change[Pod]]) -> None:
        if truth.faulty and sink_faults.random() < 0.05:
            raise RuntimeError("sink fault")
        for change in batch:
            if change.kind is ChangeKind.GONE:
                assert mirror.pop(change.obj.name).uid == change.obj.uid
            else:
                assert mirror.get(change.obj.name, change.obj).uid == change.obj.uid
                mirror[change.obj.name] = change.obj

    def converged() -> bool:
        wanted = {name: (it["metadata"]["uid"], it["metadata"]["resourceVersion"]) for name, it in truth.pods.items()}
        return wanted == {name: (it.uid, it.resource_version) for name, it in list(mirror.items())}

    server.on("GET", "/api/v1/pods", truth.list)
    server.on("GET", "/api/v1/pods?watch", truth.watch)
    reflector = Reflector(api, PODS, sink, page=4, timing=TIMING, rng=random.Random(seed))
    reflector.start()
    for _ in range(5000):
        truth.write()
        reflector._stop.wait(0.003)
        if sum(truth.faults.values()) >= FAULTS:
            break
    truth.faulty = False
    truth.write()
    server.wait_for(converged, f"seed {seed}: {truth.faults} {reflector.stats}")
    reflector.stop(WAIT)
    assert sum(truth.faults.values()) >= FAULTS
