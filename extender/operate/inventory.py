"""The nodes and pods of a cluster at one moment: from its API server, or from a file that kubectl wrote.

kubectl get nodes,pods --all-namespaces -o json > cluster.json
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from algorithm.decoding import decode_nodes, decode_pods
from algorithm.model import Node, Pod
from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer, Response
from extender.kube.client.kubeconfig import connect
from extender.kube.informers import envelopes as wire
from extender.kube.informers.listing import Listed, ListPager
from extender.kube.informers.objects import ObjectDecoder
from extender.kube.informers.reflection import NODES, PODS, ReflectorStats, RefusedError, RelistError, Resource
from extender.kube.informers.room import MemoryBudget
from extender.kube.informers.store import Tracked
from extender.scheduling.bootstrap import ClusterState
from extender.settings import ClusterSettings

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Tracked)

_PAGE = 500


class InventoryError(RuntimeError):
    """The cluster cannot be read; the message says from where, and why."""


@dataclass(frozen=True)
class Inventory:
    """What is there, and how much of it could not be read."""

    nodes: list[Node]
    pods: list[Pod]
    unreadable: int = 0

    def truth(self) -> ClusterState:
        """What a server would tell its algorithm at a start, if every pod were its own."""
        bound = {pod.uid: pod for pod in self.pods if pod.node_name and not pod.finished}
        waiting = (pod for pod in self.pods if not (pod.node_name or pod.finished or pod.terminating or pod.gated))
        return ClusterState({node.name: node for node in self.nodes}, bound, {pod.uid: pod for pod in waiting})


def from_cluster(settings: ClusterSettings, *, pods: bool = True) -> Inventory:
    """Raises InventoryError, and ConnectionSettingsError."""
    api = connect(settings)
    room = MemoryBudget(settings.cache_mib, lambda: len(nodes.objects))
    try:
        nodes = _list(api, NODES, room.for_nodes)
        known = _list(api, PODS, room.for_pods) if pods else Listed[Pod]()
    finally:
        api.close()
    unreadable = len(nodes.unreadable) + len(known.unreadable)
    return Inventory(list(nodes.objects.values()), list(known.objects.values()), unreadable)


def from_file(path: Path) -> Inventory:
    """A List of nodes, of pods, or of both. Raises InventoryError."""
    try:
        content = path.read_bytes()
        listed = msgspec.json.decode(content, type=_Kind).kind.removesuffix("List")
        items = wire.decode_page(content).items or ()
        kinds = [(msgspec.json.decode(item, type=_Kind).kind or listed, item) for item in items]
    except OSError as error:
        raise InventoryError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, bounds.BoundError) as error:
        raise InventoryError(f"{path}: not what `kubectl get nodes,pods -A -o json` writes: {error}") from error
    found = _inventory(
        [item for kind, item in kinds if kind == "Node"], [item for kind, item in kinds if kind == "Pod"]
    )
    if not found.nodes and not found.pods:
        raise InventoryError(f"{path}: there is neither a node nor a pod in it")
    return found


class _Kind(msgspec.Struct):
    kind: str = ""


def _inventory(nodes: list[msgspec.Raw], pods: list[msgspec.Raw]) -> Inventory:
    known, running = decode_nodes(nodes), decode_pods(pods)
    return Inventory(known.records, running.records, len(known.errors) + len(running.errors))


def _list(api: ApiServer, resource: Resource[T], most: Callable[[], int]) -> Listed[T]:
    def page(query: dict[str, str]) -> Response:
        return api.request("GET", resource.path, query=query, timeout=bounds.PAGE_SECONDS, most=bounds.PAGE)

    stats = ReflectorStats()
    lister = ListPager(resource, ObjectDecoder(resource, stats, log), stats, page, page=_PAGE, most=most)
    try:
        return lister.read()
    except (ApiError, RelistError, RefusedError) as error:
        raise InventoryError(f"GET {resource.path}: {error}") from error
