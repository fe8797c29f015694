"""Nodes and pods for tests, as a user would write them in a manifest."""

from __future__ import annotations

from typing import Any


def node(name: str, **more: Any) -> dict[str, Any]:
    """A node with 8 cpus, 32Gi and 110 pods; `capacity` and `labels` may be given."""
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", **more.get("capacity", {})}
    metadata = {"name": name, **({"labels": more["labels"]} if "labels" in more else {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": capacity}}


def pod(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    """A pod with one container; `requests` and `limits` are the container's, the rest is metadata or spec."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    metadata |= {key: more.pop(key) for key in ("labels", "annotations", "finalizers") if key in more}
    resources = {key: more.pop(key) for key in ("requests", "limits") if key in more}
    containers = [{"name": "main", "image": "registry.test/app:1", "resources": resources}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **more}}


def binding(name: str, node_name: str, **metadata: Any) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}
