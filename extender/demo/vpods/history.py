"""The API server's history of the set, version by version, and the laws that it must obey.

    Capacity   no pod ever holds more vreplicas than it can
    Departure  the set never shrinks under vreplicas: its last pods are empty first

Watches of the demo's own feed it, so the result does not rest on Waggle's numbers. Versions of all objects are one
sequence at the API server, so what two watches have shown can be put in order.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from extender.demo.vpods.fleet import CAPACITY, NAMESPACE, vpod_path
from extender.demo.workloads import Object

_STATEFUL_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
#: Seconds before a watch that was refused is tried again.
_PAUSE = 0.1


@dataclass(frozen=True)
class Written:
    """One version of a vpod, or of the StatefulSet: then `vpod` is empty, and `replicas` is what its spec says.

    `pods`: vreplicas by pod; `scheduled`: how many of those that the vpod wants have a pod.
    """

    version: int
    vpod: str = ""
    pods: Counter[str] = field(default_factory=Counter)
    scheduled: int = 0
    replicas: int = 0


class History:
    """All that was written. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, Written] = {}

    def add(self, entry: Written) -> None:
        """Add what a watch shows. It may show the same twice."""
        with self._lock:
            self._entries[entry.version] = entry

    def in_order(self) -> list[Written]:
        """Return everything, by version."""
        with self._lock:
            return sorted(self._entries.values(), key=lambda each: each.version)

    def latest(self) -> int:
        """Return the version of the last change."""
        with self._lock:
            return max(self._entries, default=0)


def violations(entries: Iterable[Written], capacity: int = CAPACITY) -> list[str]:
    """Return what broke a law, in the order in which it happened."""
    found = []
    placed: dict[str, Counter[str]] = {}
    replicas = 0
    for entry in entries:
        held = _sum(placed.values())
        if entry.vpod:
            grown = entry.pods - placed.get(entry.vpod, Counter())
            placed[entry.vpod] = entry.pods
            held = _sum(placed.values())
            found += [
                f"{entry.vpod} makes it {held[pod]} vreplicas on {pod}" for pod in sorted(grown) if held[pod] > capacity
            ]
            continue
        if entry.replicas < replicas:
            found += [
                f"{pod} is taken away with {held[pod]} vreplicas"
                for pod in sorted(held)
                if entry.replicas <= _ordinal(pod) < replicas
            ]
        replicas = entry.replicas
    return found


def moves(entries: Iterable[Written], after: int = 0) -> int:
    """Return how many vreplicas have left a pod for another one, in versions after this one."""
    known: dict[str, Written] = {}
    number = 0
    for entry in entries:
        if not entry.vpod:
            continue
        before = known.get(entry.vpod)
        if before is not None and entry.version > after:
            left = (before.pods - entry.pods).total()
            number += max(0, left - max(0, before.scheduled - entry.scheduled))
        known[entry.vpod] = entry
    return number


def placements(entries: Iterable[Written]) -> dict[str, Counter[str]]:
    """Return where the vreplicas of each vpod are at the end."""
    return {entry.vpod: entry.pods for entry in entries if entry.vpod}


def unevenness(pods: Counter[str], replicas: int) -> str:
    """Return the most and the least that a vpod has on pods of a set of this size; "" if they differ by at most 1."""
    least = min(pods.values(), default=0) if len(pods) == replicas else 0
    most = max(pods.values(), default=0)
    return f"{least} to {most}" if most - least > 1 else ""


def _sum(placed: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for pods in placed:
        total.update(pods)
    return +total


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])


class Witness:
    """Follows the vpods and the StatefulSet by watches of its own, under a name that no fault strikes.

    A context manager. Raises httpx.HTTPError on entering if the API server does not answer.
    """

    def __init__(self, url: str, history: History) -> None:
        self._history = history
        self._client = httpx.Client(
            base_url=url, timeout=httpx.Timeout(10, read=None), headers={"user-agent": "witness"}
        )
        self._is_over = threading.Event()
        self._versions = {path: self._list(path) for path in (vpod_path(), _STATEFUL_SETS)}
        self._threads = [
            threading.Thread(target=self._follow, args=(path,), name="witness", daemon=True) for path in self._versions
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Follow no longer. Idempotent."""
        self._is_over.set()
        self._client.close()

    def _list(self, path: str) -> str:
        found = self._client.get(path).raise_for_status().json()
        for item in found["items"]:
            self._history.add(_entry(path, item))
        version: str = found["metadata"]["resourceVersion"]
        return version

    def _follow(self, path: str) -> None:
        while not self._is_over.is_set():
            with suppress(httpx.HTTPError, RuntimeError):  # RuntimeError: the client is closed
                for event in self._events(path):
                    self._versions[path] = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._history.add(_entry(path, event["object"]))
            self._is_over.wait(_PAUSE)

    def _events(self, path: str) -> Iterator[Object]:
        query = {"watch": "true", "resourceVersion": self._versions[path], "allowWatchBookmarks": "true"}
        with self._client.stream("GET", path, params=query) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event


def _entry(path: str, item: Object) -> Written:
    metadata, status = item["metadata"], item.get("status") or {}
    version = int(metadata["resourceVersion"])
    if path == _STATEFUL_SETS:
        return Written(version, replicas=item["spec"].get("replicas", 1))
    pods: Counter[str] = Counter()
    for each in status.get("placements", ()):
        pods[each["podName"]] += each["vreplicas"]
    return Written(version, metadata["name"], pods, status.get("scheduled", 0))
