"""What goes because something else went: objects all of whose owners are absent, and the pods of a deleted node.

    owner deleted ------------------> each dependent: no owner left --> deleted (in the background)
                                                      some are left --> the references to the others go
    created with an absent owner ---> the same
    owner deleted in the foreground-> its dependents are deleted; once none is left that blocks it, it goes as well

An owner is absent if nothing of its kind and name has its uid. An owner of an unknown kind counts as present, as in
Kubernetes. (Orphaning is part of the deletion itself, see `cluster.py`.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from extender.embedded.apiserver.cluster import FOREGROUND, Cluster, DeleteOptions
from extender.embedded.apiserver.owners import Owner, owners_of
from extender.embedded.apiserver.patches import MERGE
from extender.embedded.apiserver.resources import Resource, Target
from extender.embedded.apiserver.store import Change, Key, Stored
from extender.embedded.apiserver.table import NODES, PODS

_USER = "system:serviceaccount:kube-system:generic-garbage-collector"
_POD_USER = "system:serviceaccount:kube-system:pod-garbage-collector"
#: Uids that are remembered as gone, for owners whose definition went with them.
_REMEMBERED = 10_000

#: An object: the id of its collection, and its key there.
_Place = tuple[str, Key]


class GarbageCollector:
    """Deletes in the background, at once. (The real pod garbage collector gives a lost node 40 seconds.)"""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._owners: dict[_Place, tuple[Owner, ...]] = {}
        self._dependents: dict[str, set[_Place]] = {}
        self._gone: dict[str, None] = {}
        self._gone_order: deque[str] = deque()

    def touched(self, change: Change) -> Iterable[Hashable]:
        place = (change.resource.id, change.new.key)
        is_gone = change.type == "DELETED"
        if is_gone or b'"ownerReferences"' in change.new.raw or place in self._owners:
            before, after = self._owners.get(place, ()), () if is_gone else owners_of(change.new)
            if before != after:
                self._index(place, before, after)
                # The others first: a foreground deletion may have waited for this one.
                for owner in before:
                    yield from (("owner", each) for each in self._waiting(owner, change.new.key[0]))
                if after:
                    yield "dependent", place
        if is_gone:
            self._remember(change.new.uid)
            for dependent in sorted(self._dependents.get(change.new.uid, ())):
                yield "dependent", dependent
            if change.resource is NODES:
                yield "node", change.new.key[1]
        elif FOREGROUND.encode() in change.new.raw:
            yield "owner", place

    def reconcile(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        what, place = key
        if what == "node":
            self._empty_node(place)
            return
        stored = self._find(place)
        if stored is None:
            return
        if what == "dependent":
            self._look_at(place, stored)
        else:
            self._foreground(place, stored)

    def _index(self, place: _Place, before: tuple[Owner, ...], after: tuple[Owner, ...]) -> None:
        for owner in before:
            places = self._dependents.get(owner.uid, set())
            places.discard(place)
            if not places:
                self._dependents.pop(owner.uid, None)
        for owner in after:
            self._dependents.setdefault(owner.uid, set()).add(place)
        self._owners.pop(place, None)
        if after:
            self._owners[place] = after

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        self._gone_order.append(uid)
        if len(self._gone_order) > _REMEMBERED:
            self._gone.pop(self._gone_order.popleft(), None)

    def _find(self, place: _Place) -> Stored | None:
        name, key = place
        resource = self._resource(name)
        return None if resource is None else self._cluster.store.find(resource, key)

    def _resource(self, name: str) -> Resource | None:
        return next((each.resource for each in self._cluster.store if each.resource.id == name), None)

    def _owner_place(self, owner: Owner, namespace: str) -> _Place | None:
        """Where the owner of an object in `namespace` would stand; None if that cannot be said."""
        row = self._cluster.table.by_kind(owner.api_version, owner.kind)
        if row is None or (row.namespaced and not namespace):
            return None
        return row.collection, (namespace if row.namespaced else "", owner.name)

    def _waiting(self, owner: Owner, namespace: str) -> Iterable[_Place]:
        """The owner, if it is being deleted in the foreground."""
        place = self._owner_place(owner, namespace)
        stored = self._find(place) if place else None
        if place and stored and stored.uid == owner.uid and FOREGROUND.encode() in stored.raw:
            yield place

    def _is_absent(self, owner: Owner, namespace: str) -> bool:
        if owner.uid in self._gone:
            return True
        place = self._owner_place(owner, namespace)
        if place is None:
            return False
        stored = self._find(place)
        return stored is None or stored.uid != owner.uid

    def _look_at(self, place: _Place, stored: Stored) -> None:
        """Delete the object, or its references to owners that are absent."""
        owners, namespace = owners_of(stored), place[1][0]
        if not owners or b'"deletionTimestamp"' in stored.raw:
            return
        absent = {each.uid for each in owners if self._is_absent(each, namespace)}
        going = {each.uid for each in owners if any(self._waiting(each, namespace))}
        left = {each.uid for each in owners} - absent - going
        if left and absent | going:
            self._drop_references(place, stored, absent | going)
        elif not left:
            self._delete(place, stored)

    def _delete(self, place: _Place, stored: Stored) -> None:
        policy = "Foreground" if self._dependents.get(stored.uid) and self._blocks(stored) else "Background"
        options = DeleteOptions(preconditions={"uid": stored.uid}, propagation_policy=policy)
        self._cluster.delete(self._target(place), options, user=_USER)

    def _blocks(self, stored: Stored) -> bool:
        """An owner of the object waits for it, and so must the object wait for what it owns."""
        return any(any(self._waiting(each, stored.key[0])) for each in owners_of(stored))

    def _drop_references(self, place: _Place, stored: Stored, uids: set[str]) -> None:
        references = stored.fresh()["metadata"]["ownerReferences"]
        kept = [each for each in references if each.get("uid") not in uids]
        patch = {"metadata": {"uid": stored.uid, "ownerReferences": kept}}
        self._cluster.patch(self._target(place), patch, MERGE)

    def _foreground(self, place: _Place, stored: Stored) -> None:
        """Go on with the deletion of an object that goes after all that it owns."""
        metadata = stored.fresh()["metadata"]
        if "deletionTimestamp" not in metadata or FOREGROUND not in metadata.get("finalizers", []):
            return
        for dependent in sorted(self._dependents.get(stored.uid, ())):
            found = self._find(dependent)
            if found is not None:
                self._look_at(dependent, found)
        if not any(self._is_blocking(each, stored.uid) for each in self._dependents.get(stored.uid, ())):
            others = [each for each in metadata["finalizers"] if each != FOREGROUND]
            patch = {"metadata": {"uid": stored.uid, "finalizers": others}}
            self._cluster.patch(self._target(place), patch, MERGE)

    def _is_blocking(self, dependent: _Place, uid: str) -> bool:
        return any(each.uid == uid and each.block_owner_deletion for each in self._owners.get(dependent, ()))

    def _target(self, place: _Place) -> Target:
        resource = self._resource(place[0])
        assert resource is not None, f"nothing is stored as {place[0]}"
        return Target(resource, *place[1])

    def _empty_node(self, name: str) -> None:
        if self._cluster.store.collection(NODES).get(("", name)) is not None:
            return
        for stored in [each for each in self._cluster.store.collection(PODS) if each.fields["spec.nodeName"] == name]:
            self._cluster.delete(Target(PODS, *stored.key), DeleteOptions(grace_period_seconds=0), user=_POD_USER)
