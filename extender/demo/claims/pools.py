"""The pools of the demo: their workloads in the cluster, their entries in Waggle's configuration, and the faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.demo.workloads import Object
from extender.resources.definitions import definitions

NAMESPACE = "sandboxes"
#: The label of a claimed pod, with the name of its claim.
CLAIM_LABEL = "waggle.dev/claim"
#: Waggle's time-out for calls of the API server, and the delay of late answers, seconds.
TIMEOUT, LATE = 1.0, 1.5
#: Arguments of the API server's process: seconds from a pod's creation until it is ready.
CLUSTER_ARGUMENTS = ("--start-delay", "0.4")


@dataclass(frozen=True)
class DemoPool:
    """A pool: `size` warm pods, and its share of all claims."""

    name: str
    mode: str
    size: int
    share: float
    settings: Mapping[str, object]


POOLS = (
    DemoPool("python", "detach", 48, 0.6, {"weights": {"web": 3.0}, "max_pods_per_tenant": 30}),
    DemoPool("runner", "recycle", 24, 0.4, {"order": "oldest"}),
)
#: The tenants, and the share of each of all claims.
TENANTS = {"web": 0.7, "batch": 0.3}


def cluster_objects() -> list[Object]:
    """The nodes, a Deployment for each pool, and the definitions with which claims can be objects, too."""
    nodes = (_node(f"node-{number}") for number in range(4))
    return [*nodes, *map(_deployment, POOLS), *definitions().values()]


def _node(name: str) -> Object:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "250"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _deployment(pool: DemoPool) -> Object:
    """Return the pool's Deployment. Its pod template names the node, because the demo has no kube-scheduler."""
    labels = {"pool": pool.name, **({"waggle.dev/phase": "idle"} if pool.mode == "recycle" else {})}
    node = f"node-{POOLS.index(pool)}"
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": pool.name, "namespace": NAMESPACE},
        "spec": {
            "replicas": pool.size,
            "selector": {"matchLabels": {"pool": pool.name}},
            "template": {"metadata": {"labels": labels}, "spec": {"nodeName": node, "containers": [container]}},
        },
    }


def sections() -> Object:
    """Return the sections of Waggle's configuration."""
    pools = [
        {"namespace": NAMESPACE, "name": each.name, "mode": each.mode, "selector": {"pool": each.name}, **each.settings}
        for each in POOLS
    ]
    return {
        "extender": {"enabled": False},
        "claims": {"enabled": True, "custom_resources": True, "pools": pools},
        "cluster": {"request_timeout_seconds": TIMEOUT},
    }


_POD = {"path": f"/namespaces/{NAMESPACE}/pods/"}
#: The faults that are set before Waggle starts: a fault of watches applies to watches that start later.
EARLY_FAULTS: tuple[Object, ...] = (
    {"action": "watch-drop", "method": "WATCH", "path": f"{NAMESPACE}/pods", "after": 900, "times": 1},
)
#: All faults of a claim's writes: about one answer in ten, for some seconds.
WRITE_FAULTS: tuple[Object, ...] = (
    {"action": "status", "status": 429, "headers": {"Retry-After": "1"}, "method": "PATCH", **_POD, "times": 2},
    {"action": "drop-after", "method": "PATCH", **_POD, "skip": 20, "times": 8},
    {"action": "delay", "seconds": LATE, "method": "PATCH", **_POD, "skip": 60, "times": 5},
    {"action": "status", "status": 500, "method": "PATCH", **_POD, "skip": 90, "times": 5},
    {"action": "drop-after", "method": "DELETE", **_POD, "skip": 10, "times": 5},
    {"action": "drop-before", "method": "PATCH", **_POD, "skip": 130, "times": 5},
    {"action": "watch-drop", "method": "WATCH", "path": f"{NAMESPACE}/pods", "after": 200, "times": 1},
)
