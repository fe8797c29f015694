"""Small clusters, made by hand."""

from __future__ import annotations

import json
from typing import Any

from extender.embedded.kubescheduler.model import decode_node, decode_pod
from extender.plan.records import PlanPod, RawObject, World


def node(name: str, *, version: str = "1", unschedulable: bool = False, **allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": version, "labels": {"rack": "r1"}},
        "spec": {"unschedulable": unschedulable},
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110", **allocatable},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, *, version: str = "1", on: str = "", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


def raw_object(kind: str, name: str, **fields: Any) -> RawObject:
    data = {"kind": kind, "metadata": {"name": name, "namespace": "default", **fields.pop("metadata", {})}, **fields}
    encoded = json.dumps(data).encode()
    return RawObject(kind=kind, api_version="v1", namespace="default", name=name, json=encoded)


def world(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], **fields: Any) -> World:
    return World(
        nodes=tuple(decode_node(json.dumps(each).encode()) for each in nodes),
        pods=tuple(PlanPod(pod=decode_pod(json.dumps(each).encode())) for each in pods),
        **fields,
    )
