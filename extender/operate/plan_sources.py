"""The texts of manifests: files, folders, standard input, and kustomize folders through kubectl.

    FILE      that file
    FOLDER    all *.yaml, *.yml and *.json in it and below, by name; none that are hidden or behind a link to a folder
    -         standard input

A folder with a kustomization is what `kubectl kustomize` makes of it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Timer
from typing import IO

from extender.plan.reading.documents import MOST_BYTES, InputError, Source

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MOST_FILES = 10_000
_DEEPEST = 40
#: Seconds that `kubectl kustomize` may take.
_PATIENCE = 60.0
_LONGEST_ERROR = 1000


def sources(names: Iterable[str], *, kubectl: str = "kubectl") -> list[Source]:
    """Return the texts of these files and folders, in this order. Raises InputError, naming the file."""
    found: list[Source] = []
    left = MOST_BYTES
    for name in dict.fromkeys(names):
        for source in _of(name, kubectl, left):
            found.append(source)
            left -= len(source.text)
            if len(found) > _MOST_FILES:
                raise InputError(f"{name}: more than {_MOST_FILES} files")
    return found


def _of(name: str, kubectl: str, left: int) -> Iterator[Source]:
    if name == "-":
        yield Source("-", _bounded(sys.stdin.buffer, "standard input", left))
        return
    path = Path(name)
    if not path.is_dir():
        yield _file(path, left)
        return
    before = 0
    for each in _folder(path, 0):
        source = _kustomized(each, kubectl, left - before) if each.is_dir() else _file(each, left - before)
        before += len(source.text)
        yield source
    if not before:
        raise InputError(f"{path}: there is no *.yaml, *.yml or *.json with any text in it")


def _folder(folder: Path, depth: int) -> Iterator[Path]:
    """The files of a folder and those below it, and folders with a kustomization."""
    if depth > _DEEPEST:
        raise InputError(f"{folder}: folders are nested more than {_DEEPEST} deep")
    if any((folder / each).is_file() for each in _KUSTOMIZATIONS):
        yield folder
        return
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    for each in inside:
        if each.name.startswith("."):
            continue
        if each.is_dir():
            if not each.is_symlink():
                yield from _folder(each, depth + 1)
        elif each.suffix in _SUFFIXES:
            yield each


def _file(path: Path, left: int) -> Source:
    try:
        with path.open("rb") as file:
            return Source(str(path), _bounded(file, str(path), left))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _bounded(file: IO[bytes], name: str, left: int) -> bytes:
    text = file.read(max(0, left) + 1)
    if len(text) > left:
        raise InputError(f"{name}: all files together have more than {MOST_BYTES >> 20} MiB")
    return text


def _kustomized(folder: Path, kubectl: str, left: int) -> Source:
    """What kubectl makes of a kustomize folder."""
    program = shutil.which(kubectl)
    if program is None:
        raise InputError(
            f"{folder}: it has a kustomization, and there is no kubectl here to build it; "
            f"elsewhere: kubectl kustomize {folder} > all.yaml"
        )
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - the folder is one argument, and no option
            [program, "kustomize", "--", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # it may run git, which then ends with it
        )
        assert process.stdout is not None
        late = Event()
        timer = Timer(_PATIENCE, _kill, [process, late])
        timer.start()
        try:
            text = _bounded(process.stdout, str(folder), left)
            process.wait()
        finally:
            timer.cancel()
            _kill(process)
            process.stdout.close()
            process.wait()
        if process.returncode or late.is_set():
            raise InputError(f"{folder}: kubectl kustomize {_why(errors, is_late=late.is_set())}")
    return Source(f"{folder} (kustomize)", text)


def _kill(process: subprocess.Popen[bytes], late: Event | None = None) -> None:
    """End a process and those that it has started, if it has not been waited for."""
    if process.returncode is None:
        if late is not None:
            late.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _why(errors: IO[bytes], *, is_late: bool) -> str:
    if is_late:
        return f"took more than {_PATIENCE:.0f} s"
    errors.seek(0)
    return f"failed: {errors.read(_LONGEST_ERROR).decode(errors='replace').strip() or 'it said nothing'}"
