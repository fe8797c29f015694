"""The clusters and workloads that plans are measured on: GPU nodes, pods that run on them, gangs that are to come.

Nodes have 64 cores, 256 GiB and 8 GPUs, 25 to a rack. Running pods are spread evenly and take 1 GPU each. The new pods
come in gangs of equal size that run as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from extender.embedded.kubescheduler.model import SchedNode, decode_node, decode_pod
from extender.plan.records import Changes, PlanPod, RawObject, World

GPU = "example.com/gpu"
_RACK = 25
_CREATED = "2026-11-23T10:00:00Z"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Size:
    """How many of everything."""

    nodes: int = 5000
    running: int = 20_000
    gangs: int = 100
    members: int = 20

    def __str__(self) -> str:
        new = f"{self.gangs * self.members:,} pods in {self.gangs} gangs"
        return f"{new}, {self.nodes:,} nodes, {self.running:,} running pods"


FULL, QUICK = Size(), Size(nodes=100, running=400, gangs=5, members=4)


#: kube-scheduler leaves the GPUs to Waggle, which then refuses each node itself.
LEFT_TO_WAGGLE = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
extenders:
  - urlPrefix: http://127.0.0.1:9096
    filterVerb: filter
    preemptVerb: preempt
    bindVerb: bind
    nodeCacheCapable: true
    managedResources:
      - name: {GPU}
        ignoredByScheduler: true
"""


def cluster(size: Size, *, free_gpus: int = 4, scheduler: str = "", priority: int = 0) -> World:
    """Every node has the same running pods, and so many GPUs that nobody holds."""
    each = size.running // size.nodes
    nodes = tuple(_node(number, gpus=each + free_gpus) for number in range(size.nodes))
    names = [node.name for node in nodes]
    pods = tuple(_running(number, names[number % size.nodes], priority) for number in range(each * size.nodes))
    return World(nodes=nodes, pods=pods, source="bench", scheduler=scheduler)


def new_gangs(size: Size, *, gpus: int) -> Changes:
    """Gangs whose members want so many GPUs each."""
    return Changes(
        create=tuple(_member(gang, at, size.members, gpus) for gang in range(size.gangs) for at in range(size.members))
    )


def _node(number: int, gpus: int) -> SchedNode:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus)}
    labels = {"kubernetes.io/hostname": f"node-{number}", "rack": f"r{number // _RACK}"}
    metadata = {"name": f"node-{number}", "uid": f"node-uid-{number}", "resourceVersion": "1", "labels": labels}
    conditions = [{"type": "Ready", "status": "True"}]
    body = {"metadata": metadata, "spec": {}, "status": {"allocatable": amounts, "conditions": conditions}}
    return decode_node(_encode(body))


def _running(number: int, node: str, priority: int) -> PlanPod:
    body = _pod(f"running-{number}", gpus=1, cpu="4")
    body["spec"] |= {"nodeName": node, "priority": priority}
    body["status"] = {"phase": "Running", "startTime": _CREATED}
    return PlanPod(pod=decode_pod(_encode(body)), ready=True)


def _member(gang: int, at: int, members: int, gpus: int) -> RawObject:
    body = _pod(f"gang-{gang}-{at}", gpus=gpus, cpu="8")
    body["metadata"]["annotations"] = {"waggle.dev/gang": f"gang-{gang}", "waggle.dev/gang-min": str(members)}
    for made_by_the_server in ("uid", "resourceVersion", "creationTimestamp"):
        del body["metadata"][made_by_the_server]
    del body["status"]
    name = body["metadata"]["name"]
    return RawObject(kind="Pod", api_version="v1", namespace="team", name=name, json=_encode(body), origin=name)


def _pod(name: str, *, gpus: int, cpu: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "8Gi", GPU: str(gpus)}
    container = {"name": "c", "image": "train:1", "resources": {"requests": requests, "limits": {GPU: str(gpus)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": _CREATED,
        },
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }
