"""The objects, their one resourceVersion, and the bounded history that list and watch are served from.

    put / remove --> revision + 1 --> Collection.items (now)
                                  \\-> Collection.history: Change, Change, ...  (bounded: what falls out lifts floor)
                                  \\-> listeners (watches, kubelet)

What this module promises:

* one revision counts all writes to all resources, so any two resourceVersions can be compared;
* a Stored object never changes, and its bytes are encoded once per write;
* for every revision from the floor on, `at(revision)` is exactly what a list gave then, and `since(revision)` are
  exactly the changes after it. Below the floor both raise 410 Expired, never something partial.

Only the server's event loop touches a store; it has no locks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from extender.embedded.apiserver.errors import too_large, too_old
from extender.embedded.apiserver.objects import Object, decode, encode_stored, lookup, type_prefix
from extender.embedded.apiserver.resources import Resource, ResourceTable
from extender.embedded.apiserver.table import CUSTOM_RESOURCE_DEFINITIONS

#: (namespace, name); the namespace of a cluster-scoped object is "".
Key = tuple[str, str]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was written at one revision, with what selectors ask for (`fields` by dotted path)."""

    key: Key
    revision: int
    uid: str
    raw: bytes
    labels: dict[str, str]
    fields: dict[str, str]

    def fresh(self) -> Object:
        """A copy that the caller may change."""
        obj: Object = decode(self.raw)
        return obj


@dataclass(frozen=True)
class Change:
    """One write. `new` is the object after it (of a deletion: the last state, with the deletion's revision)."""

    type: ChangeType
    resource: Resource
    new: Stored
    old: Stored | None

    @property
    def revision(self) -> int:
        return self.new.revision

    def is_end_of(self, resource: Resource) -> bool:
        """The definition of `resource` is gone."""
        gone = self.type == "DELETED" and self.resource is CUSTOM_RESOURCE_DEFINITIONS
        return gone and self.new.key[1] == resource.id

    @cached_property
    def line(self) -> bytes:
        """The watch event of this change, for watchers that select everything."""
        return event_line(self.type, self.resource, self.new.raw)


def event_line(kind: str, resource: Resource, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s%s}\n' % (kind.encode(), type_prefix(resource), raw[1:])


class Collection:
    """All objects of one resource."""

    def __init__(self, resource: Resource, *, history: int) -> None:
        self.resource = resource
        self.history: deque[Change] = deque()
        self.floor = 0
        self._limit = history
        self._items: dict[Key, Stored] = {}
        self._keys: list[Key] = []
        self._snapshot: tuple[int, list[Stored]] = (-1, [])

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Stored]:
        """The objects now, by namespace and name."""
        items = self._items
        return iter([items[key] for key in self._keys])

    def get(self, key: Key) -> Stored | None:
        return self._items.get(key)

    def at(self, revision: int) -> list[Stored]:
        """The objects as they were at `revision`, by namespace and name. Raises 410 Expired below the floor."""
        if self._snapshot[0] != revision:
            self._snapshot = (revision, self._rebuild(revision))
        elif revision < self.floor:
            raise too_old(revision, self.floor)
        return self._snapshot[1]

    def _rebuild(self, revision: int) -> list[Stored]:
        changes = self.since(revision)
        if not changes:
            return list(self)
        items = dict(self._items)
        for change in reversed(changes):
            if change.old is None:
                items.pop(change.new.key, None)
            else:
                items[change.old.key] = change.old
        return [items[key] for key in sorted(items)]

    def since(self, revision: int) -> list[Change]:
        """The changes after `revision`, in order. Raises 410 Expired below the floor."""
        if revision < self.floor:
            raise too_old(revision, self.floor)
        found: list[Change] = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def apply(self, change: Change) -> None:
        key = change.new.key
        if change.type == "DELETED":
            del self._items[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if change.old is None:
                insort(self._keys, key)
            self._items[key] = change.new
        self.history.append(change)
        if len(self.history) > self._limit:
            self.floor = self.history.popleft().revision

    def forget_history(self) -> None:
        """Every older resourceVersion is expired from here on (what etcd's compaction does)."""
        if self.history:
            self.floor = self.history[-1].revision
            self.history.clear()


class Store:
    """All collections under one revision. `history` is how many changes each resource remembers."""

    def __init__(self, table: ResourceTable, *, history: int = 5000) -> None:
        self.revision = 1
        self._history = history
        self._collections = {
            row.id: Collection(row, history=history) for row in table if not (row.stored_as or row.is_review)
        }
        #: Called after every write, in order of subscription. They must not write (watchers would see the wrong order).
        self.listeners: list[Callable[[Change], None]] = []

    def __iter__(self) -> Iterator[Collection]:
        return iter(tuple(self._collections.values()))

    def collection(self, resource: Resource) -> Collection:
        return self._collections[resource.collection]

    def serve(self, row: Resource) -> None:
        """Store the objects of `row` from here on, or, if those of its id are stored already, under its rules."""
        collection = self._collections.get(row.collection)
        if collection is None:
            collection = self._collections[row.collection] = Collection(row, history=self._history)
            collection.floor = self.revision
        collection.resource = row

    def find(self, resource: Resource, key: Key) -> Stored | None:
        """The object, None if it or its whole resource is not there (any more)."""
        collection = self._collections.get(resource.collection)
        return None if collection is None else collection.get(key)

    def drop(self, name: str) -> None:
        """Forget the collection of this id."""
        del self._collections[name]

    def require(self, revision: int) -> None:
        """Raises 504 if `revision` lies in the future."""
        if revision > self.revision:
            raise too_large(revision, self.revision)

    def put(self, resource: Resource, obj: Object) -> Stored:
        """Write a complete object (created or changed); sets its resourceVersion. The caller gives `obj` away."""
        collection = self.collection(resource)
        metadata = obj["metadata"]
        old = collection.get((metadata.get("namespace", ""), metadata["name"]))
        new = self._stored(collection.resource, obj)
        self._commit(collection, Change("MODIFIED" if old else "ADDED", collection.resource, new, old))
        return new

    def unwritten(self, resource: Resource, obj: Object) -> Stored:
        """Return a complete object as it would be after a write; nothing is written. The caller gives `obj` away."""
        return self._stored(self.collection(resource).resource, obj)

    def remove(self, resource: Resource, stored: Stored) -> Stored:
        """Delete an object; returns its last state, with the revision of the deletion."""
        collection = self.collection(resource)
        gone = self._stored(collection.resource, stored.fresh())
        self._commit(collection, Change("DELETED", collection.resource, gone, stored))
        return gone

    def _stored(self, resource: Resource, obj: Object) -> Stored:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.revision + 1)
        return Stored(
            key=(metadata.get("namespace", ""), metadata["name"]),
            revision=self.revision + 1,
            uid=metadata["uid"],
            raw=encode_stored(obj),
            labels=metadata.get("labels", {}),
            fields={".".join(path): lookup(obj, path) for path in resource.fields.values()},
        )

    def _commit(self, collection: Collection, change: Change) -> None:
        self.revision = change.revision
        collection.apply(change)
        for listener in tuple(self.listeners):
            listener(change)
