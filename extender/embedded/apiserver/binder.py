"""Puts pods on nodes where no kube-scheduler runs: each on the node with the fewest pods of its owner, then of all.

Only nodes that are ready and not cordoned count, and pods without scheduling gates. Nothing else is looked at: no
requests, no affinity, no taints. It is for worlds in which it does not matter where pods run, as long as they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.conditions import is_ready
from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.owners import controller_of
from extender.embedded.apiserver.pods import bind
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Change, Key, Stored
from extender.embedded.apiserver.table import NODES, PODS

#: What is looked at when a node may have become free: every pod without one.
_ALL = "all"


class Binder:
    """Works on one pod at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def touched(self, change: Change) -> Iterable[Hashable]:
        if change.resource is PODS and change.type != "DELETED" and _waits(change.new):
            yield change.new.key
        elif change.resource is NODES and change.type != "DELETED":
            yield _ALL

    def reconcile(self, key: Hashable) -> None:
        pods = self._cluster.store.collection(PODS)
        keys = [each.key for each in pods if _waits(each)] if key == _ALL else [key]
        for each in keys:
            assert isinstance(each, tuple)
            stored = pods.get(each)
            if stored is not None and _waits(stored) and (node := self._choose(stored)):
                self._bind(each, node)

    def _choose(self, stored: Stored) -> str:
        """The node for a pod; "" if there is none."""
        nodes = [each.key[1] for each in self._cluster.store.collection(NODES) if _serves(each.fresh())]
        owner = controller_of(stored)
        mine: Counter[str] = Counter()
        everybodys: Counter[str] = Counter()
        for pod in self._cluster.store.collection(PODS):
            node = pod.fields["spec.nodeName"]
            everybodys[node] += 1
            mine[node] += owner is not None and controller_of(pod) == owner
        return min(nodes, key=lambda node: (mine[node], everybodys[node], node), default="")

    def _bind(self, key: Key, node: str) -> None:
        binding = {"metadata": {"name": key[1]}, "target": {"kind": "Node", "name": node}}
        bind(self._cluster, Target(PODS, *key, "binding"), binding)


def _waits(stored: Stored) -> bool:
    if stored.fields["spec.nodeName"] or b'"deletionTimestamp"' in stored.raw:
        return False
    # Most pods have no gates, and need not be decoded.
    return b'"schedulingGates"' not in stored.raw or not stored.fresh()["spec"].get("schedulingGates")


def _serves(node: Object) -> bool:
    return is_ready(node) and not node.get("spec", {}).get("unschedulable")
