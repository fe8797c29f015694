"""A real kube-scheduler as the judge of a KubeSchedulerConfiguration. It is only asked to read it: no API server needed.

Found where WAGGLE_KUBE_SCHEDULER says. Without it, tests that need it are skipped.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

BINARY = os.environ.get("WAGGLE_KUBE_SCHEDULER", "")
needs_kube_scheduler = pytest.mark.skipif(
    not BINARY, reason="WAGGLE_KUBE_SCHEDULER does not name a kube-scheduler binary"
)

_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def kubeconfig(folder: Path) -> Path:
    """One that can be read, and leads nowhere."""
    path = folder / "nowhere.kubeconfig"
    path.write_text(_KUBECONFIG)
    return path


def refusal(config: Path) -> str:
    """Why the real kube-scheduler does not start with this file; empty if it does."""
    command = [BINARY, "--config", str(config), "--secure-port", "0", "--write-config-to", f"{config}.read"]
    environment = os.environ | {"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
