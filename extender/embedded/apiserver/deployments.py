"""Deployments: one ReplicaSet for each pod template, the newest one with all replicas, the others with none.

An update replaces all pods at once: maxSurge and maxUnavailable are stored and not acted upon.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.conditions import set_condition
from extender.embedded.apiserver.objects import Object
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.replicas import controller_of, reference, template_hash
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.store import Change
from extender.embedded.apiserver.table import DEPLOYMENTS, REPLICA_SETS

_HASH = "pod-template-hash"


class DeploymentController:
    """Works on one deployment at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def touched(self, change: Change) -> Iterable[Hashable]:
        if change.resource is DEPLOYMENTS:
            yield change.new.key
        elif change.resource is REPLICA_SETS:
            owner = controller_of(change.new.fresh())
            if owner is not None and owner["kind"] == DEPLOYMENTS.kind:
                yield change.new.key[0], owner["name"]

    def reconcile(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        stored = self._cluster.store.collection(DEPLOYMENTS).get(key)
        if stored is None or b'"deletionTimestamp"' in stored.raw:
            return
        deployment = stored.fresh()
        wanted, current = deployment["spec"]["replicas"], template_hash(deployment)
        if not any(_hash_of(each) == current for each in self._sets(deployment)):
            self._create(deployment, current)
        for each in self._sets(deployment):
            replicas = wanted if _hash_of(each) == current else 0
            if each["spec"]["replicas"] != replicas:
                target = Target(REPLICA_SETS, key[0], each["metadata"]["name"])
                self._cluster.patch(target, {"spec": {"replicas": replicas}}, MERGE)
        self._report(deployment, current)

    def _sets(self, deployment: Object) -> list[Object]:
        namespace, uid = deployment["metadata"]["namespace"], deployment["metadata"]["uid"]
        collection = self._cluster.store.collection(REPLICA_SETS)
        mine = [each for each in collection if each.key[0] == namespace and uid.encode() in each.raw]
        return [each.fresh() for each in mine]

    def _create(self, deployment: Object, current: str) -> None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        labels = {**spec["template"]["metadata"].get("labels", {}), _HASH: current}
        selector = {**spec["selector"], "matchLabels": {**spec["selector"].get("matchLabels", {}), _HASH: current}}
        template = {**spec["template"], "metadata": {**spec["template"]["metadata"], "labels": labels}}
        name, owner = f"{metadata['name']}-{current}", reference(DEPLOYMENTS, deployment)
        body = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {"replicas": spec["replicas"], "selector": selector, "template": template},
        }
        self._cluster.create(Target(REPLICA_SETS, metadata["namespace"]), body)

    def _report(self, deployment: Object, current: str) -> None:
        sets = self._sets(deployment)
        ready, updated = _total(sets, "readyReplicas"), [each for each in sets if _hash_of(each) == current]
        status: Object = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "replicas": _total(sets, "replicas"),
            "updatedReplicas": _total(updated, "replicas"),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, deployment["spec"]["replicas"] - ready),
        }
        status = {name: value for name, value in status.items() if value}
        status["conditions"] = deployment.get("status", {}).get("conditions", [])
        enough = "True" if ready >= deployment["spec"]["replicas"] else "False"
        set_condition(status, "Available", enough, now=self._cluster.now())
        if status != deployment.get("status"):
            self._cluster.store.put(DEPLOYMENTS, {**deployment, "status": status})


def _hash_of(replica_set: Object) -> str:
    found: str = replica_set["metadata"].get("labels", {}).get(_HASH, "")
    return found


def _total(sets: list[Object], field: str) -> int:
    return sum(each.get("status", {}).get(field, 0) for each in sets)
