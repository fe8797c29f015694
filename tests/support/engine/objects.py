"""Short ways to make the records that tests need."""

from __future__ import annotations

import itertools
from typing import Any

from algorithm.model import Node, Pod

_versions = itertools.count(1000)


def node(name: str, **resources: int) -> Node:
    """A node; `cpu` in thousandths. Without resources: 4 cores, 10 pods."""
    amounts = {name.replace("_", "-"): amount for name, amount in (resources or {"cpu": 4000, "pods": 10}).items()}
    return Node(name=name, uid=f"uid-{name}", allocatable=tuple(sorted(amounts.items())))


def pod(name: str, *, cpu: int = 1000, on: str = "", version: int | None = None, **more: Any) -> Pod:
    """A pod in namespace default with UID `uid-NAME`, newer than all made before it."""
    namespace = more.pop("namespace", "default")
    fields: dict[str, Any] = {
        "namespace": namespace,
        "name": name,
        "uid": f"uid-{name}",
        "resource_version": str(next(_versions) if version is None else version),
        "node_name": on,
        "phase": "Running" if on else "Pending",
        "requests": (("cpu", cpu),),
    }
    return Pod(**(fields | more))
