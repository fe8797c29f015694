"""The original's ScaleCache, as its recordings describe it. Ours has none: it watches the StatefulSet.

So this is what a checker of recordings needs, and no part of Waggle. Two of its habits are defects that ours cannot
have: an entry is true for a whole period whoever else scales (defect 4), and an update that was made from an entry
carries no version, so it overwrites what somebody else wrote. `tests/unit/vpods/test_writes.py` shows that every scale
that ours writes names a version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Step = dict[str, Any]
Report = dict[str, Any]

#: Seconds that an entry lives if the configuration says 0.
_DEFAULT_LIFE = 300


class ScaleCacheWorld:
    """A cache before an API server that counts what it is asked."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self._life = case["refreshPeriodSeconds"] or _DEFAULT_LIFE
        self._now = 0
        self._fails = False
        #: spec and status by name: in the API server, and in the cache with the end of its life.
        self._server: dict[str, tuple[int, int]] = {}
        self._cache: dict[str, tuple[tuple[int, int], int]] = {}
        self._gets = self._updates = 0
        #: Whether the scale that was read last has a version: an update is made from it.
        self._has_version = False

    def step(self, step: Step) -> Report:
        play: Callable[[Step], Report] | None = getattr(self, f"on_{step['op']}", None)
        if play is None:
            raise NotImplementedError(step["op"])
        return play(step) | {"clientGets": self._gets, "clientUpdates": self._updates}

    def on_client_set(self, step: Step) -> Report:
        self._server[step["name"]] = step["spec"], step["status"]
        return {}

    def on_advance(self, step: Step) -> Report:
        self._now += step["seconds"]
        return {}

    def on_fail(self, step: Step) -> Report:
        self._fails = step["on"]
        return {}

    def on_reset(self, step: Step) -> Report:
        self._cache.clear()
        return {}

    def on_get(self, step: Step) -> Report:
        name = step["name"]
        entry = self._cache.get(name)
        is_hit = entry is not None and self._now < entry[1]
        if not is_hit:
            self._gets += 1
            if self._fails:
                return {"error": True}
            self._store(name, self._server[name])
        self._has_version = not is_hit
        spec, status = self._cache[name][0]
        return {"error": False, "hasVersion": self._has_version, "name": name, "spec": spec, "status": status}

    def on_update(self, step: Step) -> Report:
        name, spec = step["name"], step["spec"]
        self._updates += 1
        report = {"error": self._fails, "sentVersion": self._has_version}
        if self._fails:
            return report
        self._server[name] = spec, self._server.get(name, (0, 0))[1]
        self._store(name, self._server[name])
        return report | {"spec": spec}

    def _store(self, name: str, scale: tuple[int, int]) -> None:
        self._cache[name] = scale, self._now + self._life
