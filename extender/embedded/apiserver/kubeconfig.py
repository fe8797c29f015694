"""The kubeconfig with which kubectl, kube-scheduler and every other client find an embedded API server."""

from __future__ import annotations

from pathlib import Path

import yaml

from extender.embedded.apiserver.objects import Object

_NAME = "waggle-embedded"


def kubeconfig(url: str) -> Object:
    """For the server at `url`; without credentials, which it does not ask for."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": {"server": url}}],
        "users": [{"name": _NAME, "user": {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }


def write_kubeconfig(path: Path, url: str) -> Path:
    """Writes the file, over one of ours if there is one; returns its path.

    Raises FileExistsError if the file is somebody else's: a kubeconfig is easily lost and hardly replaced.
    """
    if path.exists() and f"name: {_NAME}\n" not in path.read_text(encoding="utf-8", errors="replace"):
        raise FileExistsError(f"{path} exists, and is not a kubeconfig of an embedded API server")
    path.write_text(yaml.safe_dump(kubeconfig(url), sort_keys=False), encoding="utf-8")
    return path
