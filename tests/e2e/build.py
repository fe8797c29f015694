"""Builds the control plane of the e2e tests (etcd, kube-apiserver, kube-scheduler ...) and helm, from their Go modules.

    python -m tests.e2e.build        # progress on stderr; at the end one line for each program: name, version, path

Each folder below controlplane/ is a go.mod of our own whose `tool` lines name programs, pinned by its go.sum. What is
built goes into a cache outside of the repository, under a key made of go.mod, go.sum and the version of Go, so that
nothing is built twice and nothing stale is used. A module appears in the cache whole or not at all: a build that was
interrupted is done again, and of two that run at once the second waits for the first.

WAGGLE_CONTROLPLANE_BIN names a folder with programs of your own instead; WAGGLE_E2E_CACHE another cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MODULES = Path(__file__).parent / "controlplane"
#: A program is named after the last part of its package, but for this one.
_NAMES = {"go.etcd.io/etcd/server/v3": "etcd"}
#: What is built of this module gets this ending: an older kube-scheduler beside the newest one.
_ENDINGS = {"kubernetes-old": "-old"}
_KUBERNETES = "k8s.io/kubernetes"


class BuildError(RuntimeError):
    """The control plane cannot be had; the message says what is missing and what to do."""


@dataclass(frozen=True)
class Program:
    """One executable. `package` is what Go builds it from; `version` is that of its module."""

    name: str
    package: str
    version: str


@dataclass(frozen=True)
class Module:
    """A folder with a go.mod, and what its `tool` lines name."""

    folder: Path
    programs: tuple[Program, ...]

    @property
    def name(self) -> str:
        return self.folder.name


def modules() -> tuple[Module, ...]:
    """All modules, the quickest first: what is missing on this machine shows early."""
    order = ("etcd", "kwok", "kubernetes", "kubernetes-old", "helm")  # helm: most of it is compiled by then
    return tuple(_module(MODULES / name) for name in order)


def _module(folder: Path) -> Module:
    """Reads the few lines of a go.mod that matter here: `tool` and `require`, one a line or in parentheses."""
    tools, versions = [], {}
    block = ""
    for line in (folder / "go.mod").read_text(encoding="utf-8").splitlines():
        words = line.split("//")[0].replace("(", " ( ").split()
        if not words:
            continue
        if words[-1] == "(":
            block = words[0]
        elif words == [")"]:
            block = ""
        else:
            kind, *rest = words if not block else (block, *words)
            if kind == "tool":
                tools.append(rest[0])
            elif kind == "require":
                versions[rest[0]] = rest[1]
    ending = _ENDINGS.get(folder.name, "")
    return Module(folder, tuple(Program(_name(tool) + ending, tool, _version(tool, versions)) for tool in tools))


def _name(package: str) -> str:
    return _NAMES.get(package, package.rpartition("/")[2])


def _version(package: str, versions: Mapping[str, str]) -> str:
    """The version of the longest required module that the package lies in."""
    return versions[max((path for path in versions if f"{package}/".startswith(f"{path}/")), key=len)]


# -- where things are -----------------------------------------------------------------------------------------------


def cache() -> Path:
    """The folder for all that is built and all logs: WAGGLE_E2E_CACHE, else where caches usually are."""
    if chosen := os.environ.get("WAGGLE_E2E_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waggle" / "e2e"


def find(name: str) -> Path | None:
    """The program if it is there already: of the user's own, or built before. Builds nothing."""
    if own := os.environ.get("WAGGLE_CONTROLPLANE_BIN"):
        path = Path(own).expanduser() / name
        return path if os.access(path, os.X_OK) else None
    go = _go_version()
    for module in modules() if go else ():
        path = _built(module, go) / name
        if path.exists():
            return path
    return None


def _built(module: Module, go: str) -> Path:
    flags = [_link_flags(program) for program in module.programs]
    hashed = hashlib.sha256(f"{go} {flags}".encode())
    for file in ("go.mod", "go.sum"):
        hashed.update(b"\0" + (module.folder / file).read_bytes())
    return cache() / "bin" / f"{module.name}-{hashed.hexdigest()[:16]}"


def _go_version() -> str:
    """Such as `go1.26.8 linux/amd64`; empty if there is no Go."""
    if shutil.which("go") is None:
        return ""
    done = subprocess.run(
        ["go", "env", "GOVERSION", "GOOS", "GOARCH"], check=False, capture_output=True, text=True, cwd=MODULES
    )
    return " ".join(done.stdout.split())


# -- building -------------------------------------------------------------------------------------------------------


def build() -> dict[str, Path]:
    """Every program by name, built now where it was not before. Raises BuildError."""
    if own := os.environ.get("WAGGLE_CONTROLPLANE_BIN"):
        return _own(Path(own).expanduser())
    if not (go := _go_version()):
        raise BuildError(
            "Go is not installed, and the tests against a real control plane build it from source.\n"
            "Install Go 1.26 or newer (https://go.dev/doc/install), or name a folder with etcd, kube-apiserver, "
            "kube-controller-manager,\nkube-scheduler, kubectl and kwok: WAGGLE_CONTROLPLANE_BIN=/path/to/bin"
        )
    begun = time.monotonic()
    found: dict[str, Path] = {}
    for module in modules():
        folder = _built(module, go)
        if not folder.exists():
            _build_once(module, folder, begun)
        found |= {program.name: folder / program.name for program in module.programs}
    return found


def _own(folder: Path) -> dict[str, Path]:
    names = [program.name for module in modules() for program in module.programs]
    found = {name: folder / name for name in names if os.access(folder / name, os.X_OK)}
    missing = [name for name in names if name not in found and not name.endswith("-old") and name != "helm"]
    if missing:
        raise BuildError(f"WAGGLE_CONTROLPLANE_BIN={folder} lacks {', '.join(missing)}")
    return found


def _build_once(module: Module, folder: Path, begun: float) -> None:
    with _locked(folder.parent / f"{module.name}.lock"):
        if folder.exists():
            return
        unfinished = folder.parent / f"{module.name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        for program in module.programs:
            _build_program(module, program, unfinished / program.name, begun)
        unfinished.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time; the lock of one that died is free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another build of {path.stem} is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_program(module: Module, program: Program, output: Path, begun: float) -> None:
    command = ["go", "build", "-v", "-mod=readonly", "-trimpath", "-ldflags", _link_flags(program)]
    command += ["-o", str(output), program.package]
    with subprocess.Popen(
        command, cwd=module.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as compiler:
        assert compiler.stderr is not None
        said = _follow(compiler.stderr, f"{program.name} {program.version}", begun)
        if compiler.wait():
            raise BuildError(f"{program.name} {program.version} cannot be built in {module.folder}:\n{said}")


def _link_flags(program: Program) -> str:
    """Without a version of their own, Kubernetes' programs call themselves one that kubectl cannot even parse."""
    flags = ["-s", "-w"]
    if program.package.startswith(_KUBERNETES):
        major, minor, _ = program.version.removeprefix("v").split(".")
        values = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X=k8s.io/component-base/version.{key}={value}" for key, value in values.items()]
    return " ".join(flags)


def _follow(lines: IO[str], what: str, begun: float) -> str:
    """Shows how far it is while it runs; returns the last lines that the compiler said."""
    last: deque[str] = deque(maxlen=20)
    ended = threading.Event()
    count = 0

    def show() -> None:
        every = 1.0 if sys.stderr.isatty() else 30.0
        while not ended.wait(every):
            _say(f"building {what}: {count} packages compiled", begun, passing=sys.stderr.isatty())

    _say(f"building {what} ...", begun)
    printer = threading.Thread(target=show)
    printer.start()
    for line in lines:
        last.append(line)
        count += 1
    ended.set()
    printer.join()
    return "".join(last)


def _say(text: str, begun: float | None = None, *, passing: bool = False) -> None:
    since = "" if begun is None else f" [{time.monotonic() - begun:.0f} s]"
    clear = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{clear}e2e: {text}{since}{'' if passing else chr(10)}")
    sys.stderr.flush()


def main() -> int:
    try:
        found = build()
    except BuildError as error:
        sys.stderr.write(f"e2e: {error}\n")
        return 2
    versions = {program.name: program.version for module in modules() for program in module.programs}
    own = "WAGGLE_CONTROLPLANE_BIN" in os.environ
    for name, path in found.items():
        sys.stdout.write(f"{name:<24} {'your own' if own else versions[name]:<10} {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
