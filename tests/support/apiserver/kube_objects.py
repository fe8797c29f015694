"""Kubernetes objects as JSON, lists and watch events, as short as tests want them."""

from __future__ import annotations

from typing import Any


def pod(
    name: str, version: int | str = 1, *, uid: str = "", node: str = "", namespace: str = "default", label: str = ""
) -> dict[str, Any]:
    """Every version of it has another label, unless one is given: so every version is news to the scheduler."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"label": label or str(version)},
        },
        "spec": {"nodeName": node} if node else {},
    }


def pod_list(*items: Any, version: int | str = 10, more: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def event(kind: str, obj: Any) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: int | str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def expired() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})
