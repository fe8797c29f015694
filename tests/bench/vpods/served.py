"""The server of vpods as a process: how long it takes to be ready, and its memory then, when nothing has to be done.

Beside it runs the embedded API server, without controllers: its pods and vpods are made as the server and the
controllers would have left them, with the very status that the engine writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import yaml

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.vpods.writes.placements import WritePlacements, request
from tests.bench.claims.served import server
from tests.bench.vpods.fleet import NODES, SET, Fleet
from tests.bench.vpods.workload import Draws, Size
from tests.support.kubectl import CRDS

_DEADLINE = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")
Object = dict[str, Any]


@dataclass(frozen=True)
class Served:
    """Seconds from the command to ready; two seconds later, when every vpod has been decided about: CPU seconds, MiB,
    and writes of vpods and StatefulSets.
    """

    vpods: int
    pods: int
    seconds: float
    cpu: float
    mebibytes: float
    writes: int


def measure(say: Callable[[str], None], *, vpods: int = 10_000, pods: int = 500, most: int = 20) -> Served:
    """A server of vpods alone, from its command until it is ready, with so many vpods that are placed already."""
    size = Size(vpods, pods, most)
    draws = Draws(size)
    fleet = Fleet(pods=pods, capacity=size.capacity, policy="balanced", wanted=[draws.next(most) for _ in range(vpods)])
    fleet.start()
    with serve_in_thread(kubelet=False, controllers=False) as cluster:
        say(f"making {pods:,} pods and {vpods:,} vpods")
        _fill(cluster, fleet)
        say(f"starting with {vpods:,} vpods")
        versions = _versions(cluster)
        began = time.monotonic()
        with _waggle(cluster.url, fleet) as (url, process):
            _until_ready(url)
            seconds = time.monotonic() - began
            time.sleep(2.0)
            writes = sum(now != before for before, now in zip(versions, _versions(cluster), strict=True))
            return Served(vpods, pods, seconds, _cpu(process.pid), _memory(process.pid), writes)


@contextmanager
def _waggle(api: str, fleet: Fleet) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    mine = {"namespace": SET.namespace, "name": SET.name, "stateful_set": "ss", "capacity": fleet.settings.capacity}
    mine |= {"max_replicas": fleet.settings.max_replicas, "scale_down_seconds": 86_400}
    vpods = {"enabled": True, "custom_resources": True, "sets": [mine]}
    sections = {"extender": {"enabled": False}, "claims": {"enabled": False}, "vpods": vpods}
    with server(api, [], **sections, leader_election={"enabled": False}) as served:
        yield served


def _fill(cluster: EmbeddedCluster, fleet: Fleet) -> None:
    for kind in ("vpods", "vpodsets"):
        cluster.create(yaml.safe_load((CRDS / f"{kind}.yaml").read_text()))
    for number in range(NODES):
        status = {"allocatable": {"pods": "1000"}, "conditions": [{"type": "Ready", "status": "True"}]}
        cluster.apply({"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"n{number}"}, "status": status})
    template = {"metadata": {"labels": {"app": "ss"}}, "spec": _pod_spec("")}
    spec = {
        "replicas": fleet.pods,
        "serviceName": "ss",
        "selector": {"matchLabels": {"app": "ss"}},
        "template": template,
    }
    cluster.create(_object("apps/v1", "StatefulSet", "ss", spec=spec))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "ss", "controller": True}
    owner["uid"] = (cluster.get("statefulsets", "ss", "ns") or {})["metadata"]["uid"]
    for ordinal in range(fleet.pods):
        cluster.apply(_pod(ordinal, owner))
    for written in fleet.commands.values():
        _put(cluster, fleet, written)


def _object(version: str, kind: str, name: str, **more: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}, **more}


def _pod_spec(node: str) -> Object:
    return {"containers": [{"name": "main", "image": "host:1"}], **({"nodeName": node} if node else {})}


def _pod(ordinal: int, owner: Object) -> Object:
    conditions = [{"type": "Ready", "status": "True"}]
    pod = _object("v1", "Pod", f"ss-{ordinal}", spec=_pod_spec(f"n{ordinal % NODES}"))
    pod["metadata"] |= {"labels": {"app": "ss"}, "ownerReferences": [owner]}
    return {**pod, "status": {"phase": "Running", "conditions": conditions}}


def _put(cluster: EmbeddedCluster, fleet: Fleet, written: WritePlacements) -> None:
    """A vpod with the status that the engine wrote for it."""
    name = written.key.name
    spec = {"set": SET.name, "vreplicas": fleet.wanted(name)}
    made = cluster.create(_object("waggle.dev/v1alpha1", "VPod", name, spec=spec))
    uid = made["metadata"]["uid"]
    body = request(msgspec.structs.replace(written, uid=uid, generation=1)).body or b""
    cluster.patch("vpods", name, {"status": json.loads(body)["status"]}, "ns", "status")


def _versions(cluster: EmbeddedCluster) -> list[str]:
    """Of vpods and StatefulSets: other objects, such as Leases, may change."""
    found = [*cluster.objects("vpods"), *cluster.objects("statefulsets")]
    return [each["metadata"]["resourceVersion"] for each in found]


def _until_ready(url: str) -> None:
    end = time.monotonic() + _DEADLINE
    with httpx.Client(base_url=url, timeout=30) as http:
        while time.monotonic() < end:
            with suppress(httpx.HTTPError):
                if http.get("/readyz/vpods").status_code == 200:
                    return
            time.sleep(0.02)
    raise RuntimeError("the server does not get ready")


def _memory(pid: int) -> float:
    """Resident memory, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu(pid: int) -> float:
    """CPU seconds of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
