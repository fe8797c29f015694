"""Pods a second: a namespace full of waiting pods, kube-scheduler starts, and all of them are bound.

pods created --> Waggle ready --> kube-scheduler starts --> a tenth bound --- measured ---> all bound --> removed
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from extender.kube.client.api import ApiServer
from tests.bench.e2e.variants import Stage
from tests.bench.e2e.watching import Bound, cpu_seconds, means
from tests.e2e.cluster import describe
from tests.e2e.world import GPU

#: The part of the pods that is bound before it counts: connections open, caches fill.
_WARM = 10
_ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
_POINTS = "scheduler_framework_extension_point_duration_seconds"


@dataclass(frozen=True)
class Round:
    """One variant, once. `cpu` is milliseconds a pod by process; `means` what kube-scheduler says of its own."""

    rate: float
    cpu: Mapping[str, float]
    means: Mapping[str, float] = field(repr=False)
    load: float = 0.0

    @property
    def algorithm(self) -> float:
        """Milliseconds a pod, from the first plugin to the chosen node: in-tree filters, the extender, scores."""
        return self.means[_ALGORITHM]

    @property
    def filters(self) -> float:
        """Milliseconds a pod in the filters of kube-scheduler's own plugins."""
        return self._points("PreFilter", "Filter")

    @property
    def scores(self) -> float:
        """Milliseconds a pod in their scores; none where only one node is left."""
        return self._points("PreScore", "Score")

    def _points(self, *names: str) -> float:
        wanted = [f'extension_point="{name}"' for name in names]
        return sum(
            value
            for name, value in self.means.items()
            if name.startswith(_POINTS) and any(each in name for each in wanted) and 'status="Success"' in name
        )


def make_nodes(client: httpx.Client, number: int) -> None:
    """Plain Node objects: 8 GPUs each, Ready, and nobody behind them."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a node of the bench"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    for i in range(number):
        labels = {"kubernetes.io/hostname": f"n{i}", "topology.kubernetes.io/zone": f"z{i % 3}"}
        node = {"kind": "Node", "metadata": {"name": f"n{i}", "labels": labels}, "status": status}
        describe(client.post("/api/v1/nodes", json=node))


def remove_nodes(client: httpx.Client) -> None:
    describe(client.delete("/api/v1/nodes"))


def pod(name: str, *, gpus: int = 1, annotations: Mapping[str, str] | None = None, node: str = "") -> dict[str, Any]:
    """A pod of a training job; on `node` already, if one is given."""
    requests = {"cpu": "500m", "memory": "1Gi", GPU: str(gpus)}
    container = {
        "name": "main",
        "image": "registry.test/app:1",
        "resources": {"requests": requests, "limits": {GPU: str(gpus)}},
    }
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    metadata = {"name": name, "labels": {"app": "bench"}, "annotations": dict(annotations or {})}
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


def measure(stage: Stage, api: ApiServer, cluster_pids: Mapping[str, int], number: int) -> Round:
    """Binds `number` pods, which nobody else needs the room for, and removes them."""
    client = stage.world.http
    for i in range(number):
        describe(client.post(stage.pods, json=pod(f"p{i}")))
    try:
        with stage.prepared(), Bound(api, stage.pods) as bound:
            stage.start_scheduler(wait=False)
            return _timed(stage, bound, cluster_pids, number)
    finally:
        remove_pods(stage)


def _timed(stage: Stage, bound: Bound, cluster_pids: Mapping[str, int], number: int) -> Round:
    warm = max(1, number // _WARM)
    pids = {**cluster_pids, **{name: process.pid for name, process in stage.servers.items()}}
    began = bound.wait(warm)
    before = cpu_seconds(pids)
    ended = bound.wait(number)
    used = cpu_seconds(pids)
    pods = number - warm
    return Round(
        rate=pods / (ended - began),
        cpu={name: 1000 * (used[name] - before[name]) / pods for name in pids},
        means=means(f"{stage.world.scheduler_url}/metrics"),
        load=os.getloadavg()[0],
    )


def remove_pods(stage: Stage) -> None:
    """All pods of the stage, at once; returns when they are gone."""
    client = stage.world.http
    describe(client.delete(stage.pods, params={"gracePeriodSeconds": "0"}))
    while describe(client.get(stage.pods, params={"limit": "1"}))["items"]:
        time.sleep(0.05)
