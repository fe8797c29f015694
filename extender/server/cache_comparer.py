"""Compares the engine's state with a live list, heals and counts differences: `kill -USR2`, a page, or periodically.

    list nodes and pods --> compare --> wait a moment --> compare again: what still differs
                                                             |
                        what does not exist: read it live ---+--- what does: as it stands in the second list
                                                             |
                                                             +--> tell the engine --> counted --> compare once more
                                                                                                      |
                                                     differs all the same, twice in a row: restart <--+

Before that it holds the engine's components against the pod records (`scheduling.state.consistency`); a disagreement
there is a bug of the engine, and needs a restart.

Informers are said not to lose events, but an etcd may be restarted from a backup. A difference found here is a bug or a
disaster, never normal: the metric deserves an alert. To heal a difference, the comparer sends the engine an event, as
informers do. The engine may ignore the event as older than its own record. Then one of the two histories is wrong (or
the engine has a bug), and only a restart, which rebuilds all state, helps.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import quote

import msgspec
import structlog

from algorithm.model import Node, Pod
from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer, Response
from extender.kube.informers import envelopes as wire
from extender.kube.informers.listing import ListPager
from extender.kube.informers.objects import ObjectDecoder
from extender.kube.informers.reflection import (
    ListBoundError,
    ReflectorStats,
    RefusedError,
    RelistError,
    Resource,
    nodes_read_by,
    pods_read_by,
)
from extender.kube.informers.room import MemoryBudget
from extender.kube.informers.store import Tracked
from extender.scheduling.comparison import CachedState, Difference, Kind, compare_nodes, compare_pods
from extender.scheduling.events import Event, NodeGone, NodeSeen, PodGone, PodSeen
from extender.scheduling.policy import Policy
from extender.server.runtime import Runtime
from extender.server.views import Metric

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Tracked)

_PAGE = 500
#: Seconds for an informer to catch up with the list before a difference counts.
_GRACE = 2.0
#: The time-out of a page, as a multiple of that of another call.
_PATIENCE = 3
#: How many objects are read at the same time, and how many are named in a line of the log.
_READERS = 8
_NAMED = 10
#: Seconds for reading the objects that differ. There should be none. With a forged list, all objects differ, and its
#: server may answer each read as slowly as it likes.
_HEALING = 60.0
#: MiB for a list, if no budget is given.
_ROOM = 640


class CompareError(RuntimeError):
    """The API server could not be read, so there is no result."""


class CacheComparer:
    """`run` compares and heals once, from any thread. `start` does so every `every` seconds; 0 is never."""

    def __init__(
        self,
        api: ApiServer,
        runtime: Runtime,
        policy: Policy,
        *,
        every: float,
        grace: float = _GRACE,
        room: MemoryBudget | None = None,
    ) -> None:
        self._api = api
        self._room = room or MemoryBudget(_ROOM, lambda: 0)
        self._runtime = runtime
        self._policy = policy
        self._every = every
        self._grace = grace
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._found: Counter[tuple[str, str]] = Counter()
        self._runs = 0
        self._seen = _Look([], {}, {})
        self._heal_until = 0.0
        self._unhealed: set[Difference] = set()
        self._not_healed = 0
        self._inconsistent = 0
        self._thread = threading.Thread(target=self._loop, name="waggle-comparer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def request(self) -> None:
        """Compare as soon as possible, in the comparer's own thread. Safe in a signal handler."""
        self._wanted.set()

    def run(self) -> list[Difference]:
        """Compare and heal. Returns the differences. Raises CompareError if the API server cannot be read."""
        with self._one_at_a_time:
            self._check_components()
            found = self._persisting()
            healed = self._heal(found)
            self._judge(set(healed).intersection(self._look().differences) if healed else set())
            self._runs += 1
            return found

    def _check_components(self) -> None:
        """Hold ledger, cache and algorithm against the pod records. A disagreement is a bug: only a restart helps."""
        if not (found := self._runtime.model.disagreements()):
            return
        self._inconsistent += len(found)
        log.error("components disagree", count=len(found), pods=found[:_NAMED])
        self._runtime.give_up(f"the engine's components disagree: {found[0]}")

    # -- looking --------------------------------------------------------------------------------------------------

    def _persisting(self) -> list[Difference]:
        """Return the differences found in two looks. Afterwards `_seen` has the second look."""
        self._seen = self._look()
        if not self._seen.differences:
            return []
        first = set(self._seen.differences)
        self._seen = _Look([], {}, {})  # otherwise there would be two copies of the cluster for a moment
        if self._stopped.wait(self._grace):
            return []
        self._seen = self._look()
        return [difference for difference in self._seen.differences if difference in first]

    def _look(self) -> _Look:
        nodes = self._list(nodes_read_by(self._runtime.reader), self._room.for_nodes)
        pods = self._list(pods_read_by(self._runtime.reader), self._room.for_pods)
        cached_state: CachedState = self._runtime.model.cached_state()
        ours = (pod.uid for pod in pods if self._policy.should_schedule(pod) and not pod.node_name)
        found = compare_nodes(cached_state, nodes) + compare_pods(cached_state, pods, ours)
        return _Look(found, {node.uid: node for node in nodes}, {pod.uid: pod for pod in pods})

    def _list(self, resource: Resource[T], most: Callable[[], int]) -> list[T]:
        stats = ReflectorStats()
        get = partial(self._page, resource.path)
        lister = ListPager(resource, ObjectDecoder(resource, stats, log), stats, get, page=_PAGE, most=most)
        try:
            return list(lister.read().objects.values())
        except (ApiError, RelistError, RefusedError) as error:
            if isinstance(error, ListBoundError):
                self._api.refusals.count(error.bound, str(error))
            raise CompareError(f"GET {resource.path}: {error}") from error

    def _page(self, path: str, query: dict[str, str]) -> Response:
        return self._api.request("GET", path, query=query, timeout=_PATIENCE * self._api.timeout, most=bounds.PAGE)

    # -- healing --------------------------------------------------------------------------------------------------

    def _heal(self, found: list[Difference]) -> list[Difference]:
        """Send the engine events that heal these differences. Returns those for which there was an event.

        Logs a single line, not one for each difference.
        """
        self._heal_until = time.monotonic() + _HEALING
        with ThreadPoolExecutor(_READERS, thread_name_prefix="waggle-comparer") as readers:
            facts = list(readers.map(self._fact, found))
        healed = [(each, fact) for each, fact in zip(found, facts, strict=True) if fact is not None]
        for difference, _ in healed:
            self._found[difference.resource, difference.kind.value] += 1
        if healed:
            log.warning("cache healed", count=len(healed), objects=[_text(each) for each, _ in healed[:_NAMED]])
        self._runtime.handle(*(fact for _, fact in healed))
        return [difference for difference, _ in healed]

    def _fact(self, difference: Difference) -> Event | None:
        """Return an event with the live state of this object; None if that is unknown.

        A list's record can be sent as an event: the engine ignores it if it has a newer version. An object counts as
        *not* existing only after a live read of that object.
        """
        if difference.resource == "nodes":
            node = self._seen.nodes.get(difference.uid)
            return NodeSeen(node) if node is not None else self._gone(difference, NodeGone(difference.name))
        pod = self._seen.pods.get(difference.uid)
        if pod is not None:
            return PodSeen(pod)
        return self._gone(difference, PodGone(difference.namespace, difference.name, difference.uid))

    def _gone(self, difference: Difference, gone: Event) -> Event | None:
        if self._stopped.is_set() or time.monotonic() > self._heal_until:
            return None
        where = f"namespaces/{quote(difference.namespace, safe='')}/pods" if difference.namespace else "nodes"
        try:
            response = self._api.request("GET", f"/api/v1/{where}/{quote(difference.name, safe='')}")
        except ApiError as error:
            log.warning("cannot read back", name=difference.name, error=str(error))
            return None
        if response.status == 404:
            return gone
        # Another object has the name meanwhile.
        replaced = response.ok and wire.identify(msgspec.Raw(response.body)).uid not in ("", difference.uid)
        return gone if replaced else None

    def _judge(self, unhealed: set[Difference]) -> None:
        """Handle differences that remained after healing: a restart is needed if one remains twice in a row."""
        again = unhealed & self._unhealed
        self._unhealed = unhealed
        self._not_healed += len(unhealed)
        if unhealed:
            shown = [_text(each) for each in sorted(unhealed)[:_NAMED]]
            log.error("cache cannot be healed", count=len(unhealed), objects=shown)
        if again:
            self._runtime.give_up(f"the cache differs from the API server and cannot be healed: {_text(min(again))}")

    # -- time -----------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._stopped.is_set():
            asked = self._wanted.wait(self._every or None)
            self._wanted.clear()
            if self._stopped.is_set() or not self._runtime.readiness().ready:
                continue
            try:
                found = self.run()
            except CompareError as error:
                log.warning("cache could not be compared", error=str(error))
                continue
            if asked:
                log.info("cache compared with the API server", differences=len(found))

    def metrics(self) -> list[Metric]:
        samples = [
            ({"resource": resource, "kind": kind.value}, float(self._found[resource, kind.value]))
            for resource in ("nodes", "pods")
            for kind in Kind
            if (resource, kind) != ("nodes", Kind.MISPLACED)
        ]
        return [
            Metric("waggle_cache_comparisons_total", "counter", "Comparisons of the cache.", [({}, float(self._runs))]),
            Metric("waggle_cache_healed_total", "counter", "Differences found and healed; should stay 0.", samples),
            Metric(
                "waggle_cache_unhealed_total",
                "counter",
                "Differences that stayed after healing; should stay 0.",
                [({}, float(self._not_healed))],
            ),
            Metric(
                "waggle_cache_inconsistent_total",
                "counter",
                "Pods that ledger, cache or algorithm knew other than by their record; should stay 0.",
                [({}, float(self._inconsistent))],
            ),
        ]


@dataclass(frozen=True)
class _Look:
    """The differences, and the API server's objects by UID."""

    differences: list[Difference]
    nodes: dict[str, Node]
    pods: dict[str, Pod]


def _text(difference: Difference) -> str:
    name = f"{difference.namespace}/{difference.name}".lstrip("/")
    return f"{difference.resource} {name} ({difference.uid}) {difference.kind}: {difference.detail}"
