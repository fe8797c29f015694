"""Finds plug-ins, algorithms and scores of claims, by their entry-point groups. Imports only what is named."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Protocol, TypeVar

from algorithm.no_forks import refuse_forks_in
from algorithm.suggest import near


class PluginError(ValueError):
    """The plug-in that the configuration names cannot be used; the message says what to change."""


class Versioned(Protocol):
    """What a plug-in exports says for which version of its interface it was written."""

    @property
    def api_version(self) -> int: ...


P = TypeVar("P", bound=Versioned)
#: Where what comes with Waggle is.
_OURS = ("algorithm.", "extender.")


def available(group: str) -> dict[str, EntryPoint]:
    """The installed plug-ins of a group by name, not imported."""
    return _by_name(_points(group, tuple(sys.path)))


@lru_cache(maxsize=8)
def _points(group: str, _path: tuple[str, ...]) -> EntryPoints:
    """The entry points of a group. Each search reads the metadata of all distributions, so it is done once for a
    `sys.path`: what is installed while the process runs, is found by the next process."""
    return entry_points(group=group)


def _by_name(points: EntryPoints) -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(points, key=lambda p: p.name)}


def said(error: BaseException) -> str:
    """Return what an exception of a plug-in says of itself, or its class if it fails to say anything."""
    try:
        return repr(error)
    except BaseException:
        return str(type.__dict__["__name__"].__get__(type(error)))


def load(group: str, noun: str, name: str, kind: type[P], api_version: int) -> P:
    """Import the plug-in of this name, and return what it exports: a `kind`, for this version of the interface.

    `noun` is what messages call it. Raises PluginError.
    """
    found = _points(group, tuple(sys.path))
    points = _by_name(found)
    if name not in points:
        there = ", ".join(points) or "none"
        raise PluginError(f"no {noun} named {name!r} is installed; there are: {there}{near(name, points)}")
    claims = sorted({point.value for point in found if point.name == name})
    if len(claims) > 1:
        raise PluginError(f"{noun} {name!r} is claimed twice: {', '.join(claims)}; uninstall one")
    point = points[name]
    if not point.module.startswith(_OURS):
        refuse_forks_in(point.module)
    try:
        plugin = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may call sys.exit()
        raise PluginError(f"{noun} {name!r} cannot be imported: {said(error)}") from error
    if not isinstance(plugin, kind):
        expected = f"{kind.__module__}.{kind.__qualname__}"
        raise PluginError(f"{noun} {name!r}: entry point {point.value} is not an {expected}")
    if plugin.api_version != api_version:
        raise PluginError(
            f"{noun} {name!r} was written for interface version {plugin.api_version}, this is version {api_version}"
        )
    return plugin
