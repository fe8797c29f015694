"""ReplicaSets, ReplicationControllers and StatefulSets: as many pods as they say, the latter with ordinals.

    fewer than wanted --> create        StatefulSet: the lowest missing ordinal, once all lower ones are ready
    more than wanted  --> delete        StatefulSet: the highest ordinal, one at a time
    template changed  --> StatefulSet: the highest outdated ordinal is deleted, once all pods are ready

podManagementPolicy Parallel does not wait for others. Claims of volumeClaimTemplates are not created.

ReplicaSets and ReplicationControllers give up pods whose labels they do not select any more, and adopt pods without a
controller whose labels they do, as in Kubernetes. Their deletions name the pod, and no uid: with a view that lags
(`Options.pod_lag`) they delete what is not theirs any more, which is one of the traps of the real controller.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping

from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.conditions import is_ready
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.objects import Object, encode
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.podview import PodView
from extender.embedded.apiserver.resources import Resource, Target
from extender.embedded.apiserver.selectors import Requirement, from_label_selector
from extender.embedded.apiserver.store import Change, Key, Stored
from extender.embedded.apiserver.table import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS

_REVISION = "controller-revision-hash"
_USERS = {
    kind: f"system:serviceaccount:kube-system:{name}"
    for kind, name in {
        "ReplicaSet": "replicaset-controller",
        "ReplicationController": "replication-controller",
        "StatefulSet": "statefulset-controller",
    }.items()
}
Requirements = tuple[Requirement, ...]
_ROWS = {row.kind: row for row in (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)}


class ReplicaController:
    """Works on one owner at a time. Knows each owner's pods, so that it need not look through all pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods = PodView()
        #: What each owner that adopts selects, by its kind and key.
        self._selectors: dict[tuple[str, Key], Requirements] = {}

    def touched(self, change: Change) -> Iterable[Hashable]:
        if change.resource in _ROWS.values():
            yield self._select(change)
        elif change.resource is PODS:
            for owner in self._pods.see(change):
                if owner.kind in _ROWS:
                    yield owner.kind, (change.new.key[0], owner.name)
            if self._pods.is_orphan(change.new.key):
                yield from self._adopters(change.new)

    def _select(self, change: Change) -> tuple[str, Key]:
        place = change.resource.kind, change.new.key
        self._selectors.pop(place, None)
        if change.type != "DELETED" and change.resource is not STATEFUL_SETS:
            self._selectors[place] = _selector(change.resource, change.new.fresh())
        return place

    def _adopters(self, pod: Stored) -> Iterator[tuple[str, Key]]:
        for (kind, key), selector in self._selectors.items():
            if key[0] == pod.key[0] and _selects(selector, pod.labels):
                yield kind, key

    def reconcile(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        row, place = _ROWS[key[0]], key[1]
        stored = self._cluster.store.collection(row).get(place)
        if stored is None:
            return
        owner = stored.fresh()
        if "deletionTimestamp" not in owner["metadata"]:
            if row is STATEFUL_SETS:
                self._ordered(owner, list(self._pods_of(stored.uid)))
            else:
                self._release_and_adopt(row, owner)
                self._loose(row, owner, list(self._pods_of(stored.uid)))
        self._report(row, owner, list(self._pods_of(stored.uid)))

    def _pods_of(self, uid: str) -> Iterator[Object]:
        return (each.fresh() for each in self._pods.of(uid))

    def _release_and_adopt(self, row: Resource, owner: Object) -> None:
        uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
        selector = self._selectors[row.kind, (namespace, owner["metadata"]["name"])]
        for pod in self._pods.of(uid):
            if not _selects(selector, pod.labels):
                self._set_owners(pod, [each for each in _references(pod) if each.get("uid") != uid])
        for pod in self._pods.orphans(namespace):
            if _selects(selector, pod.labels) and _is_active(pod.fresh()):
                self._set_owners(pod, [*_references(pod), reference(row, owner)])

    def _set_owners(self, pod: Stored, references: list[Object]) -> None:
        patch = {"metadata": {"uid": pod.uid, "ownerReferences": references}}
        # It may be gone, or another one of that name, which this view does not show yet.
        with contextlib.suppress(ApiError):
            self._cluster.patch(Target(PODS, *pod.key), patch, MERGE)

    def _loose(self, row: Resource, owner: Object, pods: list[Object]) -> None:
        active = [pod for pod in pods if _is_active(pod)]
        missing = owner["spec"]["replicas"] - len(active)
        for _ in range(missing):
            self._create(row, owner, {"generateName": f"{owner['metadata']['name']}-"})
        if missing < 0:
            # Those that would be missed least go first, as the real one ranks them: unplaced, unready, cheap, newest.
            active.sort(key=lambda pod: self._pods.since(_key(pod)), reverse=True)
            active.sort(key=lambda pod: (bool(pod["spec"].get("nodeName")), is_ready(pod), _deletion_cost(pod)))
            refused = [error for error in map(self._try_delete, active[:-missing]) if error]
            if refused:
                raise refused[0]

    def _try_delete(self, pod: Object) -> ApiError | None:
        """One deletion that is refused keeps nobody from the others."""
        try:
            self._delete(pod)
        except ApiError as error:
            return None if error.code == 404 else error
        return None

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
        target, owner = Target(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"]), controller_of(pod)
        self._cluster.delete(target, user=_USERS[owner["kind"]] if owner else "")

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


def _selector(row: Resource, owner: Object) -> Requirements:
    """What the owner selects; nothing if it cannot be read."""
    selector = owner["spec"].get("selector") or {}
    try:
        return from_label_selector({"matchLabels": selector} if row is REPLICATION_CONTROLLERS else selector)
    except (AttributeError, KeyError, TypeError):
        return ()


def _selects(selector: Requirements, labels: Mapping[str, str]) -> bool:
    return bool(selector) and all(each.matches(labels) for each in selector)


def _key(pod: Object) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _references(pod: Stored) -> list[Object]:
    found: list[Object] = pod.fresh()["metadata"].get("ownerReferences", [])
    return found


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


def _deletion_cost(pod: Object) -> int:
    """What the pod says that its deletion costs; 0 unless it is a number of 32 bits."""
    text = str(pod["metadata"].get("annotations", {}).get("controller.kubernetes.io/pod-deletion-cost", "0"))
    try:
        cost = int(text)
    except ValueError:
        return 0
    return cost if -(2**31) <= cost < 2**31 else 0
