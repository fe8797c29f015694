"""A package of `waggle new-algorithm`, installed beside this interpreter's packages as pip would install it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from extender.operate.scaffold.writing import write

ROOT = Path(__file__).parents[2]


def made(folder: Path, name: str) -> Path:
    """Write the package `folder / name`, and return its folder."""
    write(folder / name, name)
    return folder / name


def install(project: Path, site: Path) -> dict[str, str]:
    """Install the project into the folder `site`. Returns the environment in which it can be imported."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done(*pip, "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site), str(project))
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}


def done(*command: str, folder: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a command, which must end with status 0. Returns its output."""
    result = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}\n{result.stderr}"
    return result.stdout
