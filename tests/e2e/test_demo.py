"""`make demo-real ARGS=--stay`: it ends well, and the kubectl lines that it prints work for whoever types them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.hands import eventually
from tests.support.manifests import ROOT


def test_the_demo_ends_well_and_its_kubectl_lines_work(programs: Mapping[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "demo.txt"
    with output.open("w") as written:
        demo = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.demo", "--stay"],
            cwd=ROOT,
            stdout=written,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "300"},
        )
    try:
        eventually(
            lambda: demo.poll() is not None or len(_kubectl_lines(output)) >= 3,
            lambda: output.read_text()[-3000:],
            seconds=180,
        )
        assert "All ended as it should" in output.read_text()
        for line in _kubectl_lines(output):
            done = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            assert done.stdout
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)


def _kubectl_lines(output: Path) -> list[str]:
    """Whole lines only."""
    text = output.read_text()
    whole = text[: text.rfind("\n") + 1]
    return re.findall(r"^\s*(\S*kubectl .*\S)\s*$", whole, re.MULTILINE)
