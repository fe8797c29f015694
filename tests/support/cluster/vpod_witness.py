"""Watches all vpods of one set, and says whether a pod ever held more vreplicas than it can."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import suppress

import httpx

_PATH = "/apis/waggle.dev/v1alpha1/vpods"


class PlacementWitness:
    """Follows the API server by a watch of its own, under a name of its own, so that no fault strikes it.

    `moves`: how many vreplicas have left a pod on which they were, by vpod.
    """

    def __init__(self, url: str, capacity: int) -> None:
        self._capacity = capacity
        self._placements: dict[str, Counter[str]] = {}
        self._faults: list[str] = []
        self.moves: Counter[str] = Counter()
        self._client = httpx.Client(base_url=url, timeout=httpx.Timeout(5, read=0.2), headers={"user-agent": "witness"})
        listed = self._client.get(_PATH).json()
        for each in listed["items"]:
            self._take(each, is_gone=False)
        self._version = listed["metadata"]["resourceVersion"]
        self._is_over = False
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over:
            query = {"watch": "true", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
            with suppress(httpx.HTTPError), self._client.stream("GET", _PATH, params=query) as response:
                for line in response.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(event["object"], is_gone=event["type"] == "DELETED")

    def _take(self, vpod: dict[str, object], *, is_gone: bool) -> None:
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

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()
        self._client.close()
