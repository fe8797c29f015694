"""Names of annotations that an algorithm may read without having declared them, found in its code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from algorithm.registry import Plugin

_KEY = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\.[a-z]{2,}/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
#: Names that are tried.
_MOST = 32


def suspects(plugin: Plugin[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names like those of annotations in the plug-in's modules that it declares neither for pods nor for nodes.

    Returns (names to try on pods, names to try on nodes); none where the plug-in reads every annotation.
    """
    there = {text for module in _modules(plugin) for text in _texts(module) if _KEY.fullmatch(text)}
    declared = {*(plugin.annotations or ()), *plugin.decisions}
    of_pods = sorted(there - declared)[:_MOST] if plugin.annotations is not None else []
    of_nodes = sorted(there - set(plugin.node_annotations or ()))[:_MOST] if plugin.node_annotations is not None else []
    return tuple(of_pods), tuple(of_nodes)


def _modules(plugin: Plugin[Any]) -> list[ModuleType]:
    """The module of the plug-in's parts, and those of the same package that are imported."""
    names = {plugin.settings.__module__, getattr(plugin.create, "__module__", "")}
    packages = {name.rpartition(".")[0] for name in names} - {"", "algorithm"}
    known = sorted(sys.modules.items())
    return [
        module
        for name, module in known
        if name in names or any(name == package or name.startswith(f"{package}.") for package in packages)
    ]


def _texts(module: ModuleType) -> Iterator[str]:
    for value in list(vars(module).values()):
        if isinstance(value, str):
            yield value
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
            yield from _constants(value.__code__)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for member in vars(value).values():
                function = getattr(member, "__func__", getattr(member, "fget", member))
                if isinstance(function, FunctionType):
                    yield from _constants(function.__code__)
                elif isinstance(member, str):
                    yield member


def _constants(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _constants(constant)
