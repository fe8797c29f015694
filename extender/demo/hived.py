"""The demo with HiveD: tenants that are promised machines, one that borrows what is idle, and goes when it is claimed.

The 32 nodes are four racks of eight. What a pod wants is in its annotation; cpu is never short, so kube-scheduler sees
nothing of what is scarce here: devices, and whose they are.
"""

from __future__ import annotations

import yaml

from extender.demo.workloads import BINDING_FAULTS, GPUS_PER_NODE, NODES, Act, Expect, Object, pod_names
from extender.scheduling.reads import GANG_ANNOTATION

_RACK = 8
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"

#: What is promised to whom; half of the fourth rack is promised to nobody.
ALGORITHM: Object = {
    "name": "hived",
    "settings": {
        "physicalCluster": {
            "cellTypes": {
                "host": {"childCellType": "gpu", "childCellNumber": GPUS_PER_NODE, "isNodeLevel": True},
                "rack": {"childCellType": "host", "childCellNumber": _RACK},
            },
            "physicalCells": [
                {
                    "cellType": "rack",
                    "cellAddress": f"rack-{first // _RACK}",
                    "cellChildren": [{"cellAddress": f"gpu-{number:02}"} for number in range(first, first + _RACK)],
                }
                for first in range(0, NODES, _RACK)
            ],
        },
        "virtualClusters": {
            "vision": {"virtualCells": [{"cellType": "rack", "cellNumber": 1}]},
            "speech": {"virtualCells": [{"cellType": "rack.host", "cellNumber": 12}]},
            "search": {"virtualCells": [{"cellType": "rack.host", "cellNumber": 8}]},
        },
    },
}


def acts() -> list[Act]:
    """What happens, one after the other."""
    return [
        _act("Promised: vision trains on six machines of its rack", _gang("vision-train", "vision", 10, 6)),
        _act("Borrowed: search runs without a guarantee on all that is idle", _alone("borrowed", "search", -1, 28)),
        _act(
            "Claimed: speech wants ten of its twelve machines; the pods that borrowed them have to go",
            _gang("speech-train", "speech", 5, 10),
            preempts=True,
        ),
        _act(
            "Used up: speech wants four more and has two, so it waits, whatever is free or borrowed elsewhere",
            _gang("speech-more", "speech", 5, 4),
            Expect.NONE_RUNS,
        ),
        _act(
            "Faults: answers lost after the write, 429, 500, a dropped watch; and Waggle is killed and restarted",
            _alone("steadfast", "search", 1, 6),
            preempts=True,
            faults=BINDING_FAULTS,
            crash=True,
        ),
    ]


def _act(title: str, objects: tuple[Object, ...], expect: Expect | None = None, **more: object) -> Act:
    wanted = expect or (Expect.FILLS_UP if "Borrowed" in title else Expect.ALL_RUN)
    return Act(title=title, expect=wanted, objects=objects, pods=pod_names(objects), **more)  # type: ignore[arg-type]


def _gang(name: str, tenant: str, priority: int, pods: int) -> tuple[Object, ...]:
    """Pods with a whole machine each, all of them or none."""
    return tuple(_pod(f"{name}-{number}", name, tenant, priority, pods) for number in range(pods))


def _alone(name: str, tenant: str, priority: int, pods: int) -> tuple[Object, ...]:
    return tuple(_pod(each, each, tenant, priority, 1) for each in (f"{name}-{number:02}" for number in range(pods)))


def _pod(name: str, group: str, tenant: str, priority: int, pods: int) -> Object:
    members = [{"podNumber": pods, "leafCellNumber": GPUS_PER_NODE}]
    wish = {
        "virtualCluster": tenant,
        "priority": priority,
        "leafCellNumber": GPUS_PER_NODE,
        "affinityGroup": {"name": group, "members": members},
    }
    # HiveD reads its own annotation only; by the other one the demo's report knows gangs.
    annotations = {SPEC: yaml.safe_dump(wish), GANG_ANNOTATION: group, f"{GANG_ANNOTATION}-min": str(pods)}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "100m"}}}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
