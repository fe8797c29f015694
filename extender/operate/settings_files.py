"""Files that an option `--settings` names: the algorithm's own settings, or a whole configuration of Waggle.

    strategy: spread                                                   settings of `packing`, in its own format
    algorithm: {name: packing, settings: {strategy: spread}}           a waggle.yaml

`demo`, `simulate` and `replay` take both. A file is a configuration if it has a field `algorithm`, or if all of its
fields are those of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithm.registry import AlgorithmError, check_settings, parser
from extender.plan.run.configuration import as_yaml, self_contained
from extender.settings import (
    AlgorithmSettings,
    Settings,
    SettingsError,
    algorithm_settings,
    parse,
    parse_yaml,
    read_text,
)


def configuration_text(file: Path, algorithm: str, *, any_algorithm: bool = False) -> str:
    """Return a configuration of Waggle with everything in it: the file, or the settings of `algorithm` that it has.

    `any_algorithm`: a configuration may also name another one. Raises SettingsError and AlgorithmError.
    """
    text = read_text(file, str(file))
    own = parser(algorithm)
    try:
        found = parse_yaml(text)
    except ValueError as error:
        if own is None:
            raise SettingsError(f"{file}: {error}") from error
        found = None
    if is_configuration(found):
        section, default = found.get("algorithm"), AlgorithmSettings().name
        named = section.get("name", default) if isinstance(section, dict) else default
        if named != algorithm and not any_algorithm:
            raise SettingsError(f"{file}: algorithm.name: expected {algorithm}, got {named!r}")
        whole = self_contained(text, file)
        if named == algorithm:
            _check(file, algorithm, parse(whole, file).algorithm.settings)
        return whole
    try:
        settings = own(text) if own is not None else found
    except ValueError as error:
        raise SettingsError(f"{file}: {error}") from error
    if settings is not None and not isinstance(settings, dict):
        raise SettingsError(f"{file}: expected fields, as `name: value`")
    _check(file, algorithm, settings)
    return as_yaml({"algorithm": {"name": algorithm, "settings": settings or {}}})


def _check(file: Path, algorithm: str, settings: Mapping[str, Any] | None) -> None:
    """Raise SettingsError, which names the file, if these are no settings of the algorithm."""
    try:
        check_settings(algorithm, settings)
    except AlgorithmError as error:
        raise SettingsError(f"{file}: {error}") from error


def own_settings(file: Path, algorithm: str) -> dict[str, Any]:
    """Return the settings of `algorithm` that the file has. Raises SettingsError and AlgorithmError."""
    return algorithm_settings(parse(configuration_text(file, algorithm), file).algorithm)


def is_configuration(found: Any) -> bool:
    """Return whether a parsed file is a configuration of Waggle, and not an algorithm's own settings."""
    if not isinstance(found, dict) or not found:
        return False
    return "algorithm" in found or found.keys() <= Settings.model_fields.keys()
