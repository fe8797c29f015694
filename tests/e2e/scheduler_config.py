"""The KubeSchedulerConfiguration with which the e2e tests start kube-scheduler.

The one place to change what is written: everything else goes through `write`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

DEFAULT_PROFILE = "default-scheduler"


def extender(url: str, **changed: Any) -> dict[str, Any]:
    """Waggle as an extender, as the quick start advises; a change to None leaves that field out."""
    fields = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 1,
        "nodeCacheCapable": True,
        "httpTimeout": "10s",
        **changed,
    }
    return {name: value for name, value in fields.items() if value is not None}


def write(
    path: Path,
    *,
    kubeconfig: Path,
    extenders: Sequence[Mapping[str, Any]] = (),
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
    json_only: bool = False,
    **top: Any,
) -> Path:
    """Writes the file and returns its path. `json_only` is for API servers that know no protobuf."""
    connection: dict[str, Any] = {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000}
    if json_only:
        connection["contentType"] = "application/json"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name} for name in profiles],
        "extenders": [dict(each) for each in extenders],
        **top,
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path
