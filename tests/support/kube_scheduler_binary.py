"""A real kube-scheduler as the judge of a KubeSchedulerConfiguration: it only reads it, and needs no API server.

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


def refusal(config: Path, *, folder: Path | None = None) -> str:
    """Why the real kube-scheduler does not start with this file; empty if it does. Relative names are in `folder`."""
    out = (folder or config.parent) / "read-by-kube-scheduler.yaml"
    command = [BINARY, "--config", str(config), "--secure-port", "0", "--write-config-to", str(out)]
    command += ["--master", "http://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
