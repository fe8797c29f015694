"""The pools of the demo: their workloads in the cluster, their lines in Waggle's configuration, and the faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.claim_resources.definitions import definitions
from extender.demo.workloads import Object

NAMESPACE = "sandboxes"
#: Label of a pod that is claimed, with the name of its claim.
CLAIM_LABEL = "waggle.dev/claim"
#: Seconds after which Waggle gives up a call of the API server, and by which some answers are late.
TIMEOUT, LATE = 1.0, 1.5
#: Arguments of the API server's process: seconds from a pod's creation until it is ready.
CLUSTER_ARGUMENTS = ("--start-delay", "0.4")


@dataclass(frozen=True)
class DemoPool:
    """A pool: `size` warm pods, and the share of all claims that is for it."""

    name: str
    mode: str
    size: int
    share: float
    settings: Mapping[str, object]


POOLS = (
    DemoPool("python", "detach", 48, 0.6, {"weights": {"web": 3.0}, "most_pods_of_tenant": 30}),
    DemoPool("runner", "recycle", 24, 0.4, {"order": "oldest"}),
)
#: Who claims, and the share of all claims that is its.
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
    """Its pods say on which node they run: the demo has no kube-scheduler."""
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
    """The sections of Waggle's configuration."""
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
#: In force before Waggle starts: a rule about watches concerns those that begin after it.
EARLY_FAULTS: tuple[Object, ...] = (
    {"action": "watch-drop", "method": "WATCH", "path": f"{NAMESPACE}/pods", "after": 900, "times": 1},
)
#: Everything that may go wrong with a claim's write: one answer of ten, for a while.
WRITE_FAULTS: tuple[Object, ...] = (
    {"action": "status", "status": 429, "headers": {"Retry-After": "1"}, "method": "PATCH", **_POD, "times": 2},
    {"action": "drop-after", "method": "PATCH", **_POD, "skip": 20, "times": 8},
    {"action": "delay", "seconds": LATE, "method": "PATCH", **_POD, "skip": 60, "times": 5},
    {"action": "status", "status": 500, "method": "PATCH", **_POD, "skip": 90, "times": 5},
    {"action": "drop-after", "method": "DELETE", **_POD, "skip": 10, "times": 5},
    {"action": "drop-before", "method": "PATCH", **_POD, "skip": 130, "times": 5},
    {"action": "watch-drop", "method": "WATCH", "path": f"{NAMESPACE}/pods", "after": 200, "times": 1},
)
