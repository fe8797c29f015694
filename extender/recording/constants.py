"""The constants of the program that its decisions may depend on, for the head of a recording.

The engine's own limits are in its policy, and a replay uses the recorded ones. What is left are constants of modules:
the bounds of an algorithm, formats, how much a text shows. A replay cannot use recorded ones, but it can say that they
differ: otherwise its answers would differ without an explanation.

They are found, not listed, so that no new one is forgotten: every upper-case name of a number or a text in the modules
of the engine and of the algorithm.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator, Mapping

from algorithm.registry import available

_ENGINE = ("algorithm.model", "algorithm.quantity", "algorithm.reasons", "extender.core", "extender.scheduling")
_PLAIN = (bool, int, float, str)
Constant = bool | int | float | str


def constants(algorithm: str) -> dict[str, Constant]:
    """Return the constants of the engine and of this algorithm, by module and name: of all modules that are loaded."""
    packages = _packages(algorithm)
    found: dict[str, Constant] = {}
    for name in sorted(sys.modules):
        if _is_below(name, packages):
            found.update((f"{name}.{key}", value) for key, value in _plain(vars(sys.modules[name])))
    return found


def _packages(algorithm: str) -> tuple[str, ...]:
    point = available().get(algorithm)
    return _ENGINE if point is None else (*_ENGINE, point.module)


def _is_below(module: str, packages: tuple[str, ...]) -> bool:
    return module.startswith(packages) and f"{module}.".startswith(tuple(f"{package}." for package in packages))


def _plain(names: Mapping[str, object]) -> Iterator[tuple[str, Constant]]:
    for key, value in names.items():
        if key.isupper() and (plain := _value(value)) is not None:
            yield key, plain


def _value(value: object) -> Constant | None:
    """The value as JSON has it, which knows no infinity; None if it is neither a number nor a text."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, _PLAIN) else None


def differences(recorded: Mapping[str, Constant], algorithm: str) -> list[str]:
    """Return how this program's constants differ from the recorded ones, a sentence each; a renamed one counts.

    Somebody else may have written the log, so only modules that can have been recorded are imported: those of the
    engine and of this algorithm.
    """
    said = []
    packages = _packages(algorithm)
    for path, was in recorded.items():
        now = _now(path, packages)
        if now is None:
            said.append(f"{path} was {was!r}, and is not there any more")
        elif now != was:
            said.append(f"{path} was {was!r}, and is {now!r} now")
    return said


def _now(path: str, packages: tuple[str, ...]) -> Constant | None:
    module, _, name = path.rpartition(".")
    if not _is_below(module, packages) or not name.isupper() or "__main__" in module:
        return None
    try:
        return _value(getattr(importlib.import_module(module), name, None))
    except ImportError:
        return None
