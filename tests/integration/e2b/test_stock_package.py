"""E2B's own package, unchanged, from the package index: what a program does with it works against Waggle.

The package needs an environment of its own, which `make e2b` makes. Without it the test is skipped, except in CI.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster.claim_world import claim_world

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("WAGGLE_E2B_PYTHON", ROOT / ".venv-e2b" / "bin" / "python"))
PROGRAM = Path(__file__).with_name("stock_package.py")


@pytest.mark.skipif(not PYTHON.exists() and "CI" not in os.environ, reason="`make e2b` installs E2B's package")
def test_the_stock_package() -> None:
    sections = {"claims": {"e2b": {"enabled": True, "wait_seconds": 5}}}
    with claim_world(pods=4, mode="recycle", sections=sections) as world:
        environment = {
            "E2B_API_URL": f"{world.server.handle.url}/e2b",
            "E2B_API_KEY": "e2b_" + "0" * 40,
            "PATH": "/nowhere",
        }
        ran = subprocess.run(
            [PYTHON, PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stderr
        seen = json.loads(ran.stdout)
        assert 190 < seen.pop("later") < 210
        assert -90 < seen.pop("earlier") < -70
        errors = {name: seen.pop(name) for name in ("gone", "template", "environment", "pause")}
        assert seen == {
            "created": [True, "warm", {"user": "a b&c"}, "running"],
            "connected": True,
            "pages": [2, 1],
            "listed": True,
            "found": [True],
            "killed": [True, True, True, False],
            "async": [True, "running"],
        }
        assert errors["gone"].startswith("SandboxNotFoundException")
        assert "Did you mean default/warm" in errors["template"]
        assert "envVars" in errors["environment"]
        assert "501" in errors["pause"]
        (left,) = world.claimed()  # the one that cannot be paused
        assert world.server.http.delete(f"/v1/claims/{left}").status_code == 200
