"""Which program decides: a digest of the source files of each package, so that a run goes on with the same one only.

A version is not enough: somebody who works on an algorithm changes it without another version.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path


def digests(packages: Iterable[str]) -> dict[str, str]:
    """Return a digest of the source files of each package or module; "" of one that has none.

    Raises OSError if a file cannot be read, and ImportError if a parent of a package cannot be imported.
    """
    return {package: _digest(package) for package in packages}


def _digest(package: str) -> str:
    found = hashlib.sha256()
    files = 0
    for name, path in _sources(package):
        content = path.read_bytes()
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
        files += 1
    return found.hexdigest() if files else ""


def _sources(package: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(package)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None and spec.has_location:
            yield Path(spec.origin).name, Path(spec.origin)
        return
    for folder in map(Path, spec.submodule_search_locations):
        for path in sorted(folder.rglob("*.py")):
            yield path.relative_to(folder).as_posix(), path
