"""A real kube-scheduler as the judge of a KubeSchedulerConfiguration: it only reads it, and needs no API server.

The one that WAGGLE_KUBE_SCHEDULER names, else the one that `make e2e` has built. Without either, tests that need it are
skipped; `make e2e` runs them always.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.build import find

BINARY = os.environ.get("WAGGLE_KUBE_SCHEDULER") or find("kube-scheduler")
needs_kube_scheduler = pytest.mark.skipif(not BINARY, reason="no kube-scheduler: make e2e builds one")


def refusal(config: Path, *, folder: Path | None = None) -> str:
    """Why the real kube-scheduler does not start with this file; empty if it does. Relative names are in `folder`."""
    out = (folder or config.parent) / "read-by-kube-scheduler.yaml"
    command = [BINARY, "--config", str(config), "--secure-port", "0", "--write-config-to", str(out)]
    command += ["--master", "http://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
