"""The set of the demo: its nodes, StatefulSet and vpods, Waggle's configuration, and the faults."""

from __future__ import annotations

from extender.demo.workloads import Object
from extender.resources.definitions import definitions
from extender.resources.shared import API_VERSION

NAMESPACE, SET = "streams", "dispatcher"
#: How many vreplicas a pod may hold.
CAPACITY = 20
#: The bounds of the number of pods.
FEWEST, MOST = 3, 12
NODES, ZONES = 6, 3
#: Waggle's time-out for calls of the API server, and the delay of late answers, seconds.
TIMEOUT, LATE = 1.0, 1.5
#: Arguments of the API server's process: pods get nodes, and are ready after a moment.
CLUSTER_ARGUMENTS = ("--binds", "--start-delay", "0.3")
#: The vpods, and how many vreplicas each wants when there is much to do. In quiet times it is a quarter of that.
VPODS = {
    f"topic-{name}": wanted
    for name, wanted in zip("abcdefghijkl", (24, 20, 18, 16, 15, 13, 12, 10, 9, 8, 6, 5), strict=True)
}

STATEFUL_SET = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{SET}"


def vpod_path(name: str = "") -> str:
    """Return the path of a vpod; of all of them without a name."""
    path = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/vpods"
    return f"{path}/{name}" if name else path


def quiet(wanted: int) -> int:
    """Return how many vreplicas a vpod wants in quiet times."""
    return max(1, wanted // 4)


def cluster_objects() -> list[Object]:
    """The nodes, the StatefulSet, and the definitions of the custom resources."""
    nodes = (_node(number) for number in range(NODES))
    return [*nodes, _stateful_set(), *definitions().values()]


def vpod(name: str, vreplicas: int) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "VPod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"set": SET, "vreplicas": vreplicas, "spread": 2},
    }


def _node(number: int) -> Object:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "250"}
    labels = {"topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _stateful_set() -> Object:
    labels = {"app": SET}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": SET, "namespace": NAMESPACE},
        "spec": {
            "replicas": FEWEST,
            "serviceName": SET,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def sections() -> Object:
    """Return the sections of Waggle's configuration."""
    fleet = {
        "namespace": NAMESPACE,
        "name": SET,
        "stateful_set": SET,
        "capacity": CAPACITY,
        "min_replicas": FEWEST,
        "max_replicas": MOST,
        "scale_down_seconds": 1.0,
        "overlap_seconds": 0.3,
    }
    return {
        "extender": {"enabled": False},
        "vpods": {"enabled": True, "custom_resources": True, "sets": [fleet]},
        "cluster": {"request_timeout_seconds": TIMEOUT},
    }


#: A watch of vpods ends abruptly: it is set before Waggle starts, since it applies to watches that start later.
EARLY_FAULTS: tuple[Object, ...] = (
    {"action": "watch-drop", "method": "WATCH", "path": "/vpods", "agent": "waggle", "after": 120, "times": 1},
)
_STATUS = {"method": "PATCH", "path": "/vpods/.*/status"}
#: Faults of what Waggle writes: refused, lost before and after they are done, late; and of the set's scale.
WRITE_FAULTS: tuple[Object, ...] = (
    {"action": "status", "status": 429, "headers": {"Retry-After": "1"}, **_STATUS, "times": 2},
    {"action": "drop-after", **_STATUS, "skip": 4, "times": 4},
    {"action": "delay", "seconds": LATE, **_STATUS, "skip": 10, "times": 3},
    {"action": "status", "status": 500, **_STATUS, "skip": 16, "times": 3},
    {"action": "drop-before", **_STATUS, "skip": 22, "times": 3},
    {"action": "drop-after", "method": "PATCH", "path": f"/statefulsets/{SET}/scale", "times": 1},
    {"action": "watch-drop", "method": "WATCH", "path": "/vpods", "agent": "waggle", "after": 60, "times": 1},
)
