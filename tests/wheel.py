"""Builds sdist and wheel, installs the wheel where nothing else is, and uses it there as a newcomer would.

    python -m tests.wheel            (`make wheel`; asks the package index for what Waggle depends on)

1. The sdist is made from a copy of what git tracks, and the wheel from the unpacked sdist, which needs no repository.
2. The wheel has every file of the two packages, and nothing beside them.
3. In a new environment, in a folder outside of the repository, `waggle demo` plays to its end.
4. mypy finds the types of what is installed there, and of an editable installation.

Exit status: 0 all well, 1 with a line that says what is not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("algorithm", "extender")
_HOOK = "import sys, setuptools.build_meta as build; getattr(build, 'build_' + sys.argv[1])(sys.argv[2])"
#: What a plug-in's author imports. mypy refuses it if it finds no types.
_AUTHOR = """
from algorithm.interface import SchedulerAlgorithm
from algorithm.registry import API_VERSION
from extender.settings import Settings

class Mine(SchedulerAlgorithm): ...

port: int = Settings().server.port + API_VERSION
wrong: str = Settings().server.port
"""


class WheelError(RuntimeError):
    """Something is not as it should be; the message says what."""


def run(command: Sequence[str | Path], folder: Path, *, status: int = 0) -> str:
    """What the command printed. It sees nothing of the repository that is not installed. Raises WheelError."""
    keep = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=keep, capture_output=True, text=True, check=False
    )
    if done.returncode != status:
        raise WheelError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked() -> list[str]:
    """The files of the repository, as git has them, or as they lie there if it is no clone."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = run(["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"], ROOT)
        return [name for name in listed.splitlines() if (ROOT / name).is_file()]
    files = (path for top in (*PACKAGES, "docs", "manifests") for path in (ROOT / top).rglob("*") if path.is_file())
    names = [str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts]
    return [*names, "pyproject.toml", "README.md", "LICENSE"]


def copy_of_the_source(folder: Path) -> Path:
    copy = folder / "source"
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    return copy


def built(kind: str, source: Path, folder: Path) -> Path:
    """An sdist, wheel or editable wheel, made in `folder` by this environment's setuptools: nothing is fetched."""
    folder.mkdir()
    run([sys.executable, "-c", _HOOK, kind, folder], source)
    (made,) = folder.iterdir()
    return made


def check_contents(wheel: Path) -> None:
    """Every file of the packages is in it, and nothing else that would lie beside others' packages."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {name for name in tracked() if name.split("/")[0] in PACKAGES}
    if missing := sorted(wanted - names):
        raise WheelError(f"not in the wheel: {', '.join(missing)}")
    tops = {name.split("/")[0] for name in names if not re.match(r"waggle_scheduler-[\w.]+\.dist-info/", name)}
    if tops != set(PACKAGES):
        raise WheelError(f"the wheel installs {', '.join(sorted(tops))}")


def constraints(folder: Path) -> Path:
    """The locked versions, without hashes: the wheel itself has none."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    file = folder / "constraints.txt"
    file.write_text("\n".join(re.findall(r"^([\w.-]+==[^\s\\]+(?: ; [^\\]+?)?) ?\\?$", lock, re.MULTILINE)))
    return file


def environment(folder: Path, wheel: Path, *options: str | Path) -> Path:
    """A new environment with the wheel in it; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, wheel], folder)
    return python


def check_types(python: Path, folder: Path) -> None:
    """mypy knows the types of what is installed for `python`: it finds the one mistake, and nothing else."""
    (folder / "author.py").write_text(_AUTHOR)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--cache-dir", folder / "mypy"]
    said = run([*mypy, "author.py"], folder, status=1)
    found = re.findall(r"^author.py:(\d+): error: .*\[([a-z-]+)\]$", said, re.MULTILINE)
    if [code for _, code in found] != ["assignment"] or "Found 1 error" not in said:
        raise WheelError(f"mypy does not see the types of what is installed:\n{said}")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="waggle-wheel-") as name:
        folder = Path(name).resolve()
        try:
            _check(folder)
        except WheelError as error:
            sys.stderr.write(f"wheel: {error}\n")
            return 1
    return 0


def _check(folder: Path) -> None:
    source = copy_of_the_source(folder)
    sdist = built("sdist", source, folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    wheel = built("wheel", unpacked, folder / "wheel")
    check_contents(wheel)
    _say(f"{sdist.name} and {wheel.name} ({wheel.stat().st_size >> 10} KiB) are complete")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    python = environment(folder / "environment", wheel, "--constraint", constraints(folder))
    commands = python.parent
    _say(run([commands / "waggle", "version"], elsewhere).strip())
    run([commands / "kubectl-waggle", "algorithms"], elsewhere)
    run([commands / "waggle", "demo"], elsewhere)
    _say("the demo ended as it should, outside of the repository")
    check_types(python, elsewhere)
    editable = built("editable", source, folder / "editable")
    without = environment(folder / "developer", editable, "--no-deps", "--no-index")
    # The dependencies' types come from the first environment.
    site = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], elsewhere).strip()
    packages = Path(run([without, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], elsewhere).strip())
    for each in Path(site).iterdir():
        if each.name not in PACKAGES and not (packages / each.name).exists():
            (packages / each.name).symlink_to(each)
    check_types(without, elsewhere)
    _say("mypy sees the types of the wheel, and of an editable installation")


def _say(text: str) -> None:
    sys.stdout.write(f"wheel: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
