"""Runs the tests of the engine on every Python that the distribution names and this machine has.

    python -m tests.pythons [PYTEST ARGUMENT...]       (`make pythons`; the first time asks the package index)

An interpreter is looked for on the PATH, among pyenv's, and by uv. Each gets an environment of its own with the locked
versions, in ~/.cache/waggle/pythons (or WAGGLE_PYTHONS_CACHE), which is made anew when the lock changes.
The interpreter that runs this is left out: `make test` runs everything on it. A Python that is not here is named, and
fails nothing.

Exit status: 0 all that is here passes, 1 something fails.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
#: What is pure, and all that kube-scheduler's calls go through.
TESTS = ("tests/unit/core", "tests/unit/scheduling", "tests/unit/server", "tests/unit/test_settings.py")


def named() -> list[str]:
    """The versions in the classifiers, such as 3.12."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))


def find(version: str) -> Path | None:
    """An interpreter of this version that works, and can make environments."""
    return next((path for path in _candidates(version) if _works(path, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)
    if uv := shutil.which("uv"):
        asked = [uv, "python", "find", "--no-python-downloads", version]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            yield Path(done.stdout.strip())


def _works(path: Path, version: str) -> bool:
    """pyenv's shims are on the PATH also of versions that are not chosen, and fail then."""
    script = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def environment(version: str, python: Path) -> Path:
    """The Python of an environment with the locked versions and this source; made if it is not there."""
    chosen = os.environ.get("WAGGLE_PYTHONS_CACHE")
    cache = Path(chosen) if chosen else Path.home() / ".cache" / "waggle" / "pythons"
    key = hashlib.sha256(LOCK.read_bytes() + str(python.resolve()).encode()).hexdigest()[:16]
    folder = cache / f"{version}-{key}"
    inside = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"pythons: making an environment of Python {version} ...", flush=True)
        pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(python, "-m", "venv", "--clear", folder)
        _run(*pip, "--require-hashes", "--requirement", LOCK)
        (folder / "complete").touch()
    # Of this folder, wherever an earlier run was.
    pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", ROOT)
    return inside


def _run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main(arguments: list[str]) -> int:
    failed = []
    for version in named():
        if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
            continue
        python = find(version)
        if python is None:
            print(f"pythons: there is no Python {version} on this machine: NOT TESTED", flush=True)
            continue
        print(f"pythons: {version} ({python})", flush=True)
        tests = [
            environment(version, python),
            "-m",
            "pytest",
            "-m",
            "not slow",
            "--few-examples",
            "--numprocesses",
            "2",
        ]
        done = subprocess.run([*tests, *TESTS, *arguments], cwd=ROOT, check=False)
        if done.returncode:
            failed.append(version)
    if failed:
        print(f"pythons: tests fail on {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
