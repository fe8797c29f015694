"""A run of the tests with a budget of time: what it has no time for is skipped, and told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = "tests/unit/algorithm/test_quantity.py"


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "skips"), [("0", True), ("3600", False)])
def test_what_would_begin_too_late_is_skipped_and_told(budget, skips):
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "--budget", budget, FILE]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout
    assert ("the budget of time is spent" in run.stdout) is skips
