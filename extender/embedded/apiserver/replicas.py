"""ReplicaSets, ReplicationControllers and StatefulSets: as many pods as they say, the latter with ordinals.

    fewer than wanted --> create        StatefulSet: the lowest missing ordinal, once all lower ones are ready
    more than wanted  --> delete        StatefulSet: the highest ordinal, one at a time
    template changed  --> StatefulSet: the highest outdated ordinal is deleted, once all pods are ready

podManagementPolicy Parallel does not wait for others. Claims of volumeClaimTemplates are not created.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator

from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.conditions import is_ready
from extender.embedded.apiserver.objects import Object, encode
from extender.embedded.apiserver.resources import Resource, Target
from extender.embedded.apiserver.store import Change, Key
from extender.embedded.apiserver.table import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS

_REVISION = "controller-revision-hash"
_ROWS = {row.kind: row for row in (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)}


class ReplicaController:
    """Works on one owner at a time. Knows each owner's pods, so that it need not look through all pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, set[Key]] = {}

    def touched(self, change: Change) -> Iterable[Hashable]:
        if change.resource in _ROWS.values():
            yield change.resource.kind, change.new.key
        elif change.resource is PODS and b'"ownerReferences"' in change.new.raw:
            owner = controller_of(change.new.fresh())
            if owner is not None and owner["kind"] in _ROWS:
                pods = self._pods.setdefault(owner["uid"], set())
                (pods.discard if change.type == "DELETED" else pods.add)(change.new.key)
                yield owner["kind"], (change.new.key[0], owner["name"])

    def reconcile(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        row, place = _ROWS[key[0]], key[1]
        stored = self._cluster.store.collection(row).get(place)
        if stored is None:
            return
        owner = stored.fresh()
        pods = list(self._pods_of(stored.uid))
        if "deletionTimestamp" not in owner["metadata"]:
            if row is STATEFUL_SETS:
                self._ordered(owner, pods)
            else:
                self._loose(row, owner, pods)
        self._report(row, owner, list(self._pods_of(stored.uid)))

    def _pods_of(self, uid: str) -> Iterator[Object]:
        for key in sorted(self._pods.get(uid, ())):
            stored = self._cluster.store.collection(PODS).get(key)
            if stored is not None:
                yield stored.fresh()

    def _loose(self, row: Resource, owner: Object, pods: list[Object]) -> None:
        active = [pod for pod in pods if _is_active(pod)]
        missing = owner["spec"]["replicas"] - len(active)
        for _ in range(missing):
            self._create(row, owner, {"generateName": f"{owner['metadata']['name']}-"})
        if missing < 0:
            # Those that would be missed least go first, as the real one ranks them: unplaced, unready, newest.
            active.sort(key=lambda pod: int(pod["metadata"]["resourceVersion"]), reverse=True)
            active.sort(key=lambda pod: (bool(pod["spec"].get("nodeName")), is_ready(pod)))
            for pod in active[:-missing]:
                self._delete(pod)

    def _ordered(self, owner: Object, pods: list[Object]) -> None:
        spec, name = owner["spec"], owner["metadata"]["name"]
        first = spec.get("ordinals", {}).get("start", 0)
        names = [f"{name}-{first + i}" for i in range(spec["replicas"])]
        parallel = spec["podManagementPolicy"] == "Parallel"
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        for each in names:
            pod = by_name.get(each)
            if pod is None:
                self._create(STATEFUL_SETS, owner, _identity(owner, each))
            elif not _is_active(pod) and "deletionTimestamp" not in pod["metadata"]:
                self._delete(pod)
            if not parallel and not (pod and _is_active(pod) and is_ready(pod)):
                return
        surplus = sorted(by_name.keys() - set(names), key=_ordinal, reverse=True)
        if surplus:
            for each in surplus if parallel else surplus[:1]:
                self._delete(by_name[each])
        elif all(is_ready(pod) and _is_active(pod) for pod in pods):
            self._roll(owner, [by_name[each] for each in names if each in by_name])

    def _roll(self, owner: Object, pods: list[Object]) -> None:
        strategy = owner["spec"]["updateStrategy"]
        kept = strategy.get("rollingUpdate", {}).get("partition", 0)
        current = revision_of(owner)
        outdated = [pod for pod in pods[kept:] if pod["metadata"]["labels"].get(_REVISION) != current]
        if outdated and strategy["type"] == "RollingUpdate":
            self._delete(outdated[-1])

    def _create(self, row: Resource, owner: Object, metadata: Object) -> None:
        template = owner["spec"]["template"]
        given = template["metadata"]
        labels = {**given.get("labels", {}), **metadata.pop("labels", {})}
        spec = {**template["spec"], **metadata.pop("spec", {})}
        whole = {"labels": labels, "annotations": given.get("annotations", {}), **metadata}
        whole["ownerReferences"] = [reference(row, owner)]
        self._cluster.create(Target(PODS, owner["metadata"]["namespace"]), {"metadata": whole, "spec": spec})

    def _delete(self, pod: Object) -> None:
        self._cluster.delete(Target(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _report(self, row: Resource, owner: Object, pods: list[Object]) -> None:
        alive = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        if row is not STATEFUL_SETS:
            alive = [pod for pod in alive if _is_active(pod)]
        ready = sum(map(is_ready, alive))
        status: Object = {
            "replicas": len(alive),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        if row is STATEFUL_SETS:
            status |= _revisions(owner, alive)
        else:
            status["fullyLabeledReplicas"] = len(alive)
        status = {key: value for key, value in status.items() if value or key in ("replicas", "availableReplicas")}
        if status != owner.get("status"):
            stored = self._cluster.store.collection(row).get(
                (owner["metadata"]["namespace"], owner["metadata"]["name"])
            )
            if stored is not None:
                self._cluster.store.put(row, {**stored.fresh(), "status": status})


def controller_of(obj: Object) -> Object | None:
    """The owner reference of an object's controller."""
    references: list[Object] = obj["metadata"].get("ownerReferences", [])
    return next((each for each in references if each.get("controller")), None)


def reference(row: Resource, owner: Object) -> Object:
    """The owner reference by which a controller marks what it made."""
    metadata = owner["metadata"]
    whose = {"apiVersion": row.api_version, "kind": row.kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**whose, "controller": True, "blockOwnerDeletion": True}


def template_hash(owner: Object) -> str:
    """Short, and the same for the same pod template. Label values take its letters."""
    return hashlib.sha256(encode(owner["spec"]["template"])).hexdigest()[:10]


def revision_of(owner: Object) -> str:
    return f"{owner['metadata']['name']}-{template_hash(owner)}"


def _identity(owner: Object, name: str) -> Object:
    """What makes a StatefulSet's pod this one and no other."""
    index = str(_ordinal(name))
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": index,
        _REVISION: revision_of(owner),
    }
    service = owner["spec"].get("serviceName")
    return {"name": name, "labels": labels, "spec": {"hostname": name, **({"subdomain": service} if service else {})}}


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def _is_active(pod: Object) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def _revisions(owner: Object, pods: list[Object]) -> Object:
    """The part of a StatefulSet's status that says how far an update has come."""
    new = revision_of(owner)
    updated = sum(pod["metadata"]["labels"].get(_REVISION) == new for pod in pods)
    done = updated == owner["spec"]["replicas"]
    old = new if done else owner.get("status", {}).get("currentRevision", new)
    current = updated if old == new else len(pods) - updated
    numbers = {"currentReplicas": current, "updatedReplicas": updated, "collisionCount": 0}
    return {**numbers, "currentRevision": old, "updateRevision": new}
