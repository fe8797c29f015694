"""Finds the name under which a plug-in is installed, which `waggle replay` needs to open a log.

It imports nothing: a module may hang or end the process, so that is left to the testing process. It compares files, and
follows `from slots.algorithm import PLUGIN` in them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from algorithm.registry import available

#: Imports that are followed from one file to the next: two files may import from each other.
_MOST_IMPORTS = 10


def installed_name(reference: str) -> str:
    """The name of the entry point that is this plug-in, or else the reference itself.

    It is this plug-in if it names the same object of modules that are imported already, or the same name in the same
    file.
    """
    points = available()
    if reference in points:
        return reference
    found, origin = _imported(reference), _origin(reference)
    for name, point in points.items():
        is_same_object = found is not None and _imported(point.value) is found
        if point.value == reference or is_same_object or (origin is not None and _origin(point.value) == origin):
            return name
    return reference


def how_to_open(log: Path, plugin: str) -> str:
    """What a user types to see this log. `waggle replay` finds installed plug-ins only, by the name in the log."""
    is_installed = installed_name(plugin) in available()
    before = ", after you install the plug-in under a name (pip install -e .) and test it again by that name"
    return f"waggle replay {log} --step{'' if is_installed else before}"


def _imported(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(sys.modules.get(module), attribute, None) if attribute else None


def _origin(reference: str) -> tuple[Path, str] | None:
    """The file that makes the object, and its name there; None if there is no such file."""
    where, _, name = reference.rpartition(":")
    file = _existing(Path(where)) if where.endswith(".py") else _file_of(where)
    for _ in range(_MOST_IMPORTS):
        if file is None:
            return None
        found = _import_of(file, name)
        if found is None:
            return file, name
        file, name = found
    return None


def _import_of(file: Path, name: str) -> tuple[Path | None, str] | None:
    """The file from which this one imports the name, and its name there; None if it does not import it."""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for each in reversed(body):
        if isinstance(each, ast.ImportFrom):
            for alias in each.names:
                if (alias.asname or alias.name) == name:
                    return _file_imported(file, each), alias.name
    return None


def _file_imported(file: Path, statement: ast.ImportFrom) -> Path | None:
    module = statement.module or ""
    if not statement.level:
        return _file_of(module)
    parents = file.parents
    return _file_in(parents[statement.level - 1], module.split(".")) if statement.level <= len(parents) else None


def _file_of(module: str) -> Path | None:
    """The file of a module. `find_spec` imports the packages around a module, so it is asked for the outermost only."""
    top, *inner = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not inner:
        return _existing(Path(spec.origin)) if spec.origin else None
    files = (_file_in(Path(folder), inner) for folder in spec.submodule_search_locations or ())
    return next((file for file in files if file is not None), None)


def _file_in(folder: Path, module: Sequence[str]) -> Path | None:
    path = folder.joinpath(*module)
    return _existing(path / "__init__.py") or _existing(path.with_name(f"{path.name}.py"))


def _existing(file: Path) -> Path | None:
    return file.resolve() if file.is_file() else None
