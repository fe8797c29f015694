"""Finds policies by name: Waggle's own, and those that installed distributions register in the entry-point group.

    [project.entry-points."waggle.placements"]
    mine = "my_package:PLUGIN"

Nothing of a plug-in is imported unless a set names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from algorithm import plugins
from algorithm.placements import balanced, head, v0431
from algorithm.placements.model import Placement, SetState, VPodState
from algorithm.placements.policy import API_VERSION, GROUP, PlacementPlugin, Policy, PolicyError, checked
from algorithm.placements.v0430 import live
from algorithm.registry import explain
from algorithm.suggest import near

BALANCED = "balanced"


class NoSettings(BaseModel):
    """For a policy that has none."""

    model_config = ConfigDict(extra="forbid")


def _balanced(vpod: VPodState, state: SetState, most_moves: int) -> Placement:
    return balanced.place(vpod, state, most_moves=most_moves)


def _head(vpod: VPodState, state: SetState, _: int) -> Placement:
    return head.place(vpod, state)


def _v0431(vpod: VPodState, state: SetState, _: int) -> Placement:
    return v0431.place(vpod, state)


#: Policies without settings whose answers need no check. The last two move nothing that may stay.
_TRUSTED: dict[str, Policy] = {BALANCED: _balanced, "head": _head, "v0.43.1": _v0431}
_BUILT_IN: dict[str, PlacementPlugin[Any]] = {
    "v0.43.0": PlacementPlugin(settings=live.V0430Settings, create=live.policy),
}


def available() -> list[str]:
    """The names of all policies."""
    own = [*_TRUSTED, *_BUILT_IN]
    return [*own, *(name for name in plugins.available(GROUP) if name not in own)]


def create(name: str, settings: Mapping[str, Any]) -> Policy:
    """The policy of this name. Raises PolicyError if there is none, or if a setting is wrong (it names each field)."""
    trusted = _TRUSTED.get(name)
    plugin = None if trusted else _find(name)
    model = plugin.settings if plugin else NoSettings
    try:
        accepted = model.model_validate(dict(settings))
    except ValidationError as error:
        raise PolicyError(f"policy_settings: {explain(error, model)}") from error
    if plugin is None:
        assert trusted is not None
        return trusted
    try:
        return checked(plugin.create(accepted))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise anything, and call sys.exit()
        raise PolicyError(f"policy {name!r} cannot be made: {error!r}"[:500]) from error


def _find(name: str) -> PlacementPlugin[Any]:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if name not in plugins.available(GROUP):
        there = available()
        raise PolicyError(f"policy: there is no policy {name!r}; there are: {', '.join(there)}{near(name, there)}")
    try:
        return plugins.load(GROUP, "policy", name, PlacementPlugin, API_VERSION)
    except plugins.PluginError as error:
        raise PolicyError(f"policy: {error}") from error
