"""What goes because something else went: what a deleted workload owned, and the pods of a deleted node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from extender.embedded.apiserver.cluster import Cluster, DeleteOptions
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Change
from extender.embedded.apiserver.table import (
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)

_OWNERS = (DEPLOYMENTS, JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)


class GarbageCollector:
    """Deletes in the background, at once. (The real pod garbage collector gives a lost node 40 seconds.)"""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def touched(self, change: Change) -> Iterable[Hashable]:
        if change.type == "DELETED" and change.resource in _OWNERS:
            yield "owner", change.new.uid
        elif change.type == "DELETED" and change.resource is NODES:
            yield "node", change.new.key[1]

    def reconcile(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        what, name = key
        if what == "owner":
            for resource, stored in self._cluster.owned_by(name):
                self._cluster.delete(Target(resource, *stored.key))
        elif self._cluster.store.collection(NODES).get(("", name)) is None:
            for stored in [
                each for each in self._cluster.store.collection(PODS) if each.fields["spec.nodeName"] == name
            ]:
                self._cluster.delete(Target(PODS, *stored.key), DeleteOptions(grace_period_seconds=0))
