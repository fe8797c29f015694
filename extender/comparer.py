"""Holds the heart against a live list, heals what differs, and counts it: `kill -USR2`, a page, and every few minutes.

    list nodes and pods --> compare --> wait a moment --> compare again: what still differs
                                                             |
                                                             +--> read each live --> tell the heart --> counted

Informers do not lose events, says everybody, and then somebody restarts an etcd from a backup. What is found here is a
bug or a disaster, never normal: the metric is worth an alert. Healing is telling the heart a fact, as informers do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import structlog

from algorithm.model import DecodeError, Node, Pod, decode_node, decode_nodes, decode_pod, decode_pods
from extender.core.comparison import Beliefs, Difference, Kind, compare_nodes, compare_pods
from extender.core.events import Event, NodeGone, NodeSeen, PodGone, PodSeen
from extender.core.policy import Policy
from extender.kube import wire
from extender.kube.api import ApiError, ApiServer
from extender.runtime import Runtime
from extender.views import Metric

log = structlog.get_logger(__name__)

_PAGE = 500
#: Seconds that an informer gets to catch up with the list before a difference counts.
_GRACE = 2.0


class CompareError(RuntimeError):
    """The API server could not be read, so nothing can be said."""


class Comparer:
    """`run` compares and heals once, from any thread. `start` does so every `every` seconds; 0 is never."""

    def __init__(
        self, api: ApiServer, runtime: Runtime, policy: Policy, *, every: float, grace: float = _GRACE
    ) -> None:
        self._api = api
        self._runtime = runtime
        self._policy = policy
        self._every = every
        self._grace = grace
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._found: Counter[tuple[str, str]] = Counter()
        self._runs = 0
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
        """What differed and was healed. Raises CompareError if the API server cannot be read."""
        with self._one_at_a_time:
            found = self._suspects()
            if found:
                if self._stopped.wait(self._grace):
                    return []
                again = set(self._suspects())
                found = [difference for difference in found if difference in again]
            for difference in found:
                self._heal(difference)
            self._runs += 1
            return found

    # -- looking --------------------------------------------------------------------------------------------------

    def _suspects(self) -> list[Difference]:
        nodes = decode_nodes(self._list("/api/v1/nodes")).records
        pods = decode_pods(self._list("/api/v1/pods")).records
        beliefs: Beliefs = self._runtime.beliefs()
        ours = (p.uid for p in pods if self._policy.ours(p) and not (p.node_name or p.terminating or p.gated))
        return compare_nodes(beliefs, nodes) + compare_pods(beliefs, pods, ours)

    def _list(self, path: str) -> Iterator[msgspec.Raw]:
        token = ""
        while True:
            query = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
            page = wire.decode_page(self._get(path, query))
            yield from page.items or ()
            token = page.next
            if not token:
                return

    def _get(self, path: str, query: dict[str, str] | None = None) -> bytes:
        try:
            response = self._api.request("GET", path, query=query)
        except ApiError as error:
            raise CompareError(f"GET {path}: {error}") from error
        if not response.ok:
            raise CompareError(f"GET {path}: {response.status} {response.message}")
        return response.body

    # -- healing --------------------------------------------------------------------------------------------------

    def _heal(self, difference: Difference) -> None:
        fact = self._fact(difference)
        if fact is None:
            return
        self._found[difference.resource, difference.kind.value] += 1
        log.warning(
            "cache healed",
            resource=difference.resource,
            kind=difference.kind.value,
            name=f"{difference.namespace}/{difference.name}".lstrip("/"),
            uid=difference.uid,
            detail=difference.detail,
        )
        self._runtime.handle(fact)

    def _fact(self, difference: Difference) -> Event | None:
        """What is true of this object now, read live; None if that cannot be told."""
        is_node = difference.resource == "nodes"
        where = "nodes" if is_node else f"namespaces/{difference.namespace}/pods"
        decode: Callable[[bytes], Any] = decode_node if is_node else decode_pod
        try:
            response = self._api.request("GET", f"/api/v1/{where}/{difference.name}")
            known = decode(response.body) if response.ok else None
        except (ApiError, DecodeError) as error:
            log.warning("cannot read back", name=difference.name, error=str(error))
            return None
        if known is None and response.status != 404:
            return None
        return _node_fact(difference, known) if is_node else _pod_fact(difference, known)

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
        ]


def _node_fact(difference: Difference, node: Node | None) -> Event:
    return NodeGone(difference.name) if node is None else NodeSeen(node)


def _pod_fact(difference: Difference, pod: Pod | None) -> Event:
    if pod is None or pod.uid != difference.uid:
        return PodGone(difference.namespace, difference.name, difference.uid)
    return PodSeen(pod)
