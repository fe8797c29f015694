"""Everything that happened to vpods and StatefulSets, as the API server wrote it, and what must hold at every moment.

    with History(plane) as history:
        ...
        assert not history.overfull("t1", "fleet", capacity=10)

A watch shows every version of an object, and all versions come from one sequence of revisions. So the versions of
vpods and those of StatefulSets, in one order, are the states in which the cluster was.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from tests.e2e.cluster import ControlPlane, describe
from tests.e2e.hands import Object, eventually

VPODS = "/apis/waggle.dev/v1alpha1/vpods"
STATEFUL_SETS = "/apis/apps/v1/statefulsets"
#: Seconds without an event after which a watch begins again where it was: so a thread sees soon that it shall end.
_QUIET = 1.0

Placements = Mapping[str, int]


@dataclass(frozen=True)
class Version:
    """One version of a vpod or a StatefulSet. `wanted`: of a StatefulSet, its replicas; 0 once it is gone."""

    revision: int
    kind: str
    namespace: str
    name: str
    wanted: int
    placements: Placements
    #: Of a vpod: the name of its set, if that is in its own namespace.
    set: str = ""
    is_gone: bool = False


class History:
    """Watches from `__enter__` to `__exit__`, in all namespaces. Further `resources` are read as vpods, with what they
    want in spec.replicas; the name of their set is that of the resource."""

    def __init__(self, plane: ControlPlane, *resources: str) -> None:
        self._plane = plane
        self._paths = (VPODS, STATEFUL_SETS, *resources)
        self._versions: list[Version] = []
        #: The revision up to which each watch has come.
        self._since: dict[str, str] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for path in self._paths:
            with self._plane.client() as http:
                since: str = eventually(lambda http=http, path=path: self._list(http, path), f"{path} are served")  # type: ignore[misc]
            thread = threading.Thread(target=self._watch, args=(path, since), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(5 * _QUIET)

    def _list(self, http: httpx.Client, path: str) -> str:
        """The revision of the list; "" if the API server is being restarted, or prepares for a new resource."""
        answer = http.get(path)
        if answer.status_code != httpx.codes.OK:
            return ""
        listed = answer.json()
        for item in listed["items"]:
            self._add(path, item)
        revision: str = listed["metadata"]["resourceVersion"]
        return revision

    def _watch(self, path: str, since: str) -> None:
        with self._plane.client() as http:
            while not self._over.is_set():
                try:
                    since = self._follow(http, path, since) if since else self._list(http, path)
                except httpx.TransportError:
                    since = self._since.get(path, since)
                    time.sleep(0.05)

    def _follow(self, http: httpx.Client, path: str, since: str) -> str:
        """Read a watch to its end; "" if it must begin with a list, since an API server that was restarted has
        forgotten what came before."""
        query = {"watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true"}
        with http.stream("GET", path, params=query, timeout=_QUIET) as answer:
            if answer.status_code != httpx.codes.OK:
                time.sleep(0.1)
                return since
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return ""
                self._since[path] = since = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._add(path, event["object"], is_gone=event["type"] == "DELETED")
        return since

    def _add(self, path: str, item: Object, *, is_gone: bool = False) -> None:
        meta, spec, status = item["metadata"], item["spec"], item.get("status", {})
        placements: Counter[str] = Counter()
        if path != STATEFUL_SETS and not is_gone:
            for each in status.get("placements") or ():
                placements[each["podName"]] += each.get("vreplicas", 0)
        wanted = spec.get("vreplicas" if path == VPODS else "replicas", 1)
        version = Version(
            revision=int(meta["resourceVersion"]),
            kind="StatefulSet" if path == STATEFUL_SETS else "vpod",
            namespace=meta["namespace"],
            name=meta["name"],
            wanted=0 if is_gone else wanted,
            placements=dict(placements),
            set=spec.get("set", "") if path == VPODS else path.rpartition("/")[2],
            is_gone=is_gone,
        )
        with self._lock:
            self._versions.append(version)

    # -- what it says -----------------------------------------------------------------------------------------------

    def now(self, namespace: str) -> int:
        """Wait until all is known that the API server has of a namespace; the newest revision."""
        with self._plane.client() as http:
            for path in self._paths:
                listed = describe(http.get(_in_namespace(path, namespace)))
                due = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]}
                eventually(lambda due=due: self._knows(namespace, due), f"{path} are known")  # type: ignore[misc]
        with self._lock:
            return max((each.revision for each in self._versions), default=0)

    def _knows(self, namespace: str, due: Mapping[str, int]) -> bool:
        known: dict[str, int] = {}
        with self._lock:
            for each in self._versions:
                if each.namespace == namespace:
                    known[each.name] = max(known.get(each.name, 0), each.revision)
        return all(known.get(name, 0) >= revision for name, revision in due.items())

    def versions(self, namespace: str, set_name: str, *, since: int = 0) -> list[Version]:
        """Of a set's vpods, and of the StatefulSet of the same name, in their order."""
        with self._lock:
            found = [each for each in self._versions if each.namespace == namespace and each.revision > since]
        mine = (each for each in found if set_name == (each.name if each.kind == "StatefulSet" else each.set))
        return sorted(mine, key=lambda each: each.revision)

    def _changes(self, namespace: str, set_name: str, since: int) -> Iterator[tuple[Version, Version]]:
        """Each version of a vpod after `since`, with the one before it."""
        known: dict[str, Version] = {}
        for each in self.versions(namespace, set_name):
            if each.kind == "vpod":
                before = known.get(each.name)
                if before is not None and each.revision > since:
                    yield before, each
                known[each.name] = each

    def overfull(self, namespace: str, set_name: str, *, capacity: int) -> list[str]:
        """Moments at which a pod held more vreplicas than its capacity."""
        held: Counter[str] = Counter()
        known: dict[str, Placements] = {}
        found = []
        for each in self.versions(namespace, set_name):
            if each.kind == "vpod":
                held.subtract(known.get(each.name, {}))
                held.update(each.placements)
                known[each.name] = each.placements
                found += [f"{each.revision}: {pod} {held[pod]}" for pod in each.placements if held[pod] > capacity]
        return found

    def stranded(self, namespace: str, set_name: str) -> list[str]:
        """Moments at which vreplicas were on a pod that the StatefulSet's replicas do not have."""
        known: dict[str, Placements] = {}
        replicas: int | None = None
        found = []
        for each in self.versions(namespace, set_name):
            if each.kind == "vpod":
                known[each.name] = each.placements
            else:
                replicas = each.wanted
            if replicas is not None:
                touched = known if each.kind == "StatefulSet" else [each.name]
                found += [
                    f"{each.revision}: {name} has {number} on {pod} of {replicas}"
                    for name in touched
                    for pod, number in known[name].items()
                    if number and _ordinal(pod) >= replicas
                ]
        return found

    def lost(self, namespace: str, set_name: str) -> list[str]:
        """Moments at which a vpod had fewer vreplicas than before although it wanted more than that."""
        return [
            f"{after.revision}: {after.name} {sum(before.placements.values())} -> {sum(after.placements.values())}"
            for before, after in self._changes(namespace, set_name, 0)
            if sum(after.placements.values()) < min(sum(before.placements.values()), after.wanted)
        ]

    def moves(self, namespace: str, set_name: str, *, since: int = 0) -> int:
        """How many vreplicas have left a pod for another one."""
        return sum(
            min(_gained(before.placements, after.placements), _gained(after.placements, before.placements))
            for before, after in self._changes(namespace, set_name, since)
        )

    def gained(self, namespace: str, set_name: str, *, since: int = 0) -> int:
        """How many vreplicas have come to a pod, from another one or new."""
        return sum(_gained(a.placements, b.placements) for a, b in self._changes(namespace, set_name, since))

    def peak(self, namespace: str, set_name: str) -> int:
        """The most replicas that the StatefulSet had."""
        versions = self.versions(namespace, set_name)
        return max((each.wanted for each in versions if each.kind == "StatefulSet"), default=0)

    def story(self, namespace: str, set_name: str, *, last: int = 60) -> str:
        """The newest versions, for assertions that fail."""
        return "\n".join(
            f"{each.revision} {each.kind} {each.name}: wants {each.wanted}, has {dict(each.placements)}"
            for each in self.versions(namespace, set_name)[-last:]
        )


def _gained(before: Placements, after: Placements) -> int:
    return sum(max(0, number - before.get(pod, 0)) for pod, number in after.items())


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def _in_namespace(path: str, namespace: str) -> str:
    before, _, plural = path.rpartition("/")
    return f"{before}/namespaces/{namespace}/{plural}"


def named(items: list[Object]) -> dict[str, Any]:
    """Objects by name."""
    return {item["metadata"]["name"]: item for item in items}
