"""Finds a plug-in and its world by name, in this process or another one: `package.module:NAME`, or `file.py:NAME`.

The kit tries an algorithm in a process of its own, so an object has to have a name by which it can be imported there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from algorithm.conformance.results import shown
from algorithm.conformance.world import Worlds
from algorithm.registry import API_VERSION, Plugin, available, explain, explain_yaml


class UnusableError(ValueError):
    """The plug-in cannot be tried at all; the message says why."""


def resolve(reference: str) -> Any:
    """Import what has this name. Raises UnusableError."""
    where, colon, name = reference.rpartition(":")
    if not colon or not where or not name.isidentifier():
        raise UnusableError(
            f"{reference!r}: expected PACKAGE:PLUGIN, as `my_package.module:PLUGIN` or `file.py:PLUGIN`"
        )
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else import_module(where)
    except Exception as error:
        raise UnusableError(f"{where} cannot be imported: {shown(error)}") from error
    except SystemExit as error:
        raise UnusableError(f"{where} cannot be imported: it ends the process ({shown(error)})") from error
    try:
        return getattr(module, name)
    except AttributeError:
        raise UnusableError(f"{where} has no {name}") from None


def _from_file(path: Path) -> Any:
    name = _name_of(path)
    for known in list(sys.modules.values()):
        if getattr(known, "__file__", None) == str(path):
            return known
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no Python file {path}")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _name_of(path: Path) -> str:
    """The name of the module in this file; another one if a package here has it, which it would hide."""
    is_free = path.stem.isidentifier() and path.stem not in sys.modules and find_spec(path.stem) is None
    return path.stem if is_free else f"file_{path.stem}"


def plugin_of(reference: str) -> Plugin[Any]:
    """The plug-in of this name, or of an installed algorithm's name. Raises UnusableError."""
    if ":" not in reference:
        points = available()
        if reference not in points:
            there = ", ".join(points) or "none"
            raise UnusableError(
                f"{reference!r}: expected PACKAGE:PLUGIN, or the name of an installed algorithm ({there})"
            )
        reference = points[reference].value
    found = resolve(reference)
    if not isinstance(found, Plugin):
        raise UnusableError(f"{reference} is a {type(found).__name__}, not an algorithm.registry.Plugin")
    if found.api_version != API_VERSION:
        raise UnusableError(
            f"{reference} was written for interface version {found.api_version}, this is version {API_VERSION}"
        )
    return found


def settings_of(plugin: Plugin[Any], settings: Mapping[str, Any], name: str = "settings") -> BaseModel:
    """The settings, checked by the plug-in's own model. Raises UnusableError, which names each field.

    `name`: what messages call the settings, for example their file. The same in `read_settings`.
    """
    try:
        checked: BaseModel = plugin.settings.model_validate(dict(settings))
    except ValidationError as error:
        raise UnusableError(f"{name}: {explain(error, plugin.settings)}") from error
    except Exception as error:
        raise UnusableError(f"{name}: the model raised {shown(error)}") from error
    return checked


def read_settings(plugin: Plugin[Any], text: str, name: str = "settings") -> dict[str, Any]:
    """The settings in the text of a file: read by the plug-in's `parse`, or as YAML. Raises UnusableError."""
    import yaml

    try:
        found: Any = yaml.safe_load(text) if plugin.parse is None else plugin.parse(text)
    except yaml.MarkedYAMLError as error:
        raise UnusableError(f"{name}: {explain_yaml(error)}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise UnusableError(f"{name}: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise UnusableError(f"{name}: expected fields, as `name: value`")
    return dict(found)


def worlds_of(plugin: Plugin[Any], reference: str = "") -> Worlds:
    """The worlds of this name, or those that the plug-in names, or plain ones. Raises UnusableError."""
    name = reference or plugin.world
    if not name:
        from algorithm.conformance.worlds.plain import worlds

        return worlds(plugin)
    found = resolve(name)
    if not isinstance(found, Worlds):
        raise UnusableError(f"{name} is a {type(found).__name__}, not an algorithm.conformance.world.Worlds")
    return found


def reference_of(thing: Any, hints: Iterable[str], names: Mapping[str, Any]) -> str:
    """A reference by which `thing` can be imported again. `hints` are modules, `names` the globals of the caller.

    Raises UnusableError if no module has it under a name.
    """
    if isinstance(thing, str):
        return thing
    for module_name in _with_parents(hints):
        if (found := _name_in(vars(sys.modules.get(module_name, sys)), thing)) and module_name in sys.modules:
            return f"{module_name}:{found}"
    if found := _name_in(names, thing):
        return f"{names['__file__']}:{found}"
    raise UnusableError(
        f"{thing!r:.100} has no name by which another process can import it: assign it to a variable of the module"
    )


def _with_parents(modules: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in modules:
        parts = name.split(".")
        found.update(dict.fromkeys(".".join(parts[:length]) for length in range(len(parts), 0, -1)))
    # A module of pytest's `importlib` mode may not be importable elsewhere: it is found by its file.
    return [
        name for name in found if getattr(sys.modules.get(name), "__spec__", None) is not None and not _is_test(name)
    ]


def _is_test(module_name: str) -> bool:
    return module_name.rpartition(".")[2].startswith(("test_", "conftest", "__main__")) or module_name == "__main__"


def _name_in(names: Mapping[str, Any], thing: Any) -> str:
    return next((name for name, value in names.items() if value is thing and name.isidentifier()), "")
