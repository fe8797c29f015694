"""Writes a new package with an algorithm: every file or none, and never over one that is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from algorithm.registry import available
from extender.recording.files import named_in_errors

#: The longest name: it becomes part of names of files, and of metrics.
LONGEST = 50
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
#: The files by their path in the new package, with the file here that each is made of.
_MADE_OF: Mapping[str, str] = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
    "<name>/__init__.py": "__init__.py.txt",
    "<name>/py.typed": "",
    "tests/test_algorithm.py": "test_algorithm.py.txt",
    "tests/test_contract.py": "test_contract.py.txt",
    "trace.json": "trace.json",
    "waggle.yaml": "waggle.yaml.txt",
    "scheduler.yaml": "scheduler.yaml.txt",
}


class ScaffoldError(ValueError):
    """The package cannot be written; the message says why, and what to do instead."""


def name_for(folder: Path) -> str:
    """The name of an algorithm in this folder, if none is given. It may be one that cannot be used."""
    return re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")


def check_name(name: str) -> None:
    """Raise ScaffoldError if no algorithm and no package can have this name here."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise ScaffoldError(
            f"{name!r} cannot be the name of an algorithm: expected at most {LONGEST} of a-z, 0-9 and _, a letter first"
        )
    if iskeyword(name):
        raise ScaffoldError(f"{name!r} is a keyword of Python, so no package can have that name")
    if name in available():
        raise ScaffoldError(f"an algorithm {name!r} is installed here ({available()[name].value}): take another name")
    if name == "tests" or name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ScaffoldError(f"a package {name!r} is here already, and the new one would hide it: take another name")


def contents(name: str) -> dict[str, str]:
    """The texts of all files of the package, by their paths."""
    words = {"<name>": name, "<distribution>": f"waggle-{name.replace('_', '-')}"}

    def filled(text: str) -> str:
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    texts = {filled(path): filled(_read(f"files/{source}")) if source else "" for path, source in _MADE_OF.items()}
    texts[f"{name}/algorithm.py"] = re.sub(r"\bSlots\b", _class_name(name), _read("slots.py"))
    return texts


def write(folder: Path, name: str) -> list[str]:
    """Write the package into this folder, which must be empty or absent. Returns the paths of its files, sorted.

    Raises ScaffoldError, and OSError; then nothing is left of it.
    """
    check_name(name)
    if folder.exists() and (not folder.is_dir() or next(folder.iterdir(), None) is not None):
        raise ScaffoldError(f"{folder} already exists and is not an empty folder: nothing was written")
    texts = contents(name)
    with _undone_if_it_fails() as made:
        for path, text in sorted(texts.items()):
            target = folder / path
            _make_folder(target.parent, made)
            with named_in_errors(target), target.open("x", encoding="utf-8") as file:
                made.append(target)
                file.write(text)
    return sorted(texts)


def _make_folder(folder: Path, made: list[Path]) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent, made)
    folder.mkdir()
    made.append(folder)


@contextmanager
def _undone_if_it_fails() -> Iterator[list[Path]]:
    """The files and folders that were made are removed again if an exception comes."""
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
