"""A right plug-in: the 40 lines of docs/plugin-authors.md, which `waggle new-algorithm` writes."""

from __future__ import annotations

from extender.operate.scaffold.slots import PLUGIN, Settings, Slots

__all__ = ["PLUGIN", "Settings", "Slots"]
