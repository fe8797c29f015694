"""Watches all vpods of one set, and says whether a pod ever held more vreplicas than it can."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.support.cluster.follower import Follower

_PATH = "/apis/waggle.dev/v1alpha1/vpods"


class PlacementWitness(Follower):
    """`moves`: how many vreplicas have left a pod on which they were, by vpod."""

    def __init__(self, url: str, capacity: int) -> None:
        self._capacity = capacity
        self._placements: dict[str, Counter[str]] = {}
        self._faults: list[str] = []
        self.moves: Counter[str] = Counter()
        super().__init__(url, _PATH)

    def take(self, vpod: dict[str, Any], *, is_gone: bool) -> None:
        metadata, status = vpod["metadata"], vpod.get("status") or {}
        assert isinstance(metadata, dict)
        assert isinstance(status, dict)
        name = f"{metadata['namespace']}/{metadata['name']}"
        before = self._placements.pop(name, Counter())
        now: Counter[str] = Counter()
        for each in () if is_gone else status.get("placements", ()):
            if isinstance(each, dict) and isinstance(each.get("vreplicas"), int):
                now[each.get("podName", "")] += each["vreplicas"]
        if not is_gone:
            self._placements[name] = now
            self.moves[name] += min(sum((before - now).values()), sum((now - before).values()))
        grown = now - before
        held: Counter[str] = Counter()
        for placements in self._placements.values():
            held.update(placements)
        for pod in grown:
            if held[pod] > self._capacity:
                self._faults.append(f"{pod} has {held[pod]} at version {metadata['resourceVersion']}, by {name}")

    def check(self) -> None:
        """Raises AssertionError if a pod ever got more than it can hold."""
        assert not self._faults, self._faults[:5]
