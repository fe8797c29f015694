"""The pods as a controller sees them: like the cache of an informer, it may be behind what is stored."""

from __future__ import annotations

from extender.embedded.apiserver.owners import Owner, controller_of
from extender.embedded.apiserver.store import Change, Key, Stored

#: Ends of pods that are remembered, so that an older change of one that comes later is known to be old.
_REMEMBERED = 10_000


class PodView:
    """Pods by their controller, and those without one by their namespace. Knows them without looking through all."""

    def __init__(self) -> None:
        self._pods: dict[Key, tuple[Stored, Owner | None]] = {}
        self._by_owner: dict[str, set[Key]] = {}
        self._orphans: dict[str, set[Key]] = {}
        self._ends: dict[Key, int] = {}
        #: When each was seen first, as a number that grows.
        self._since: dict[Key, int] = {}

    def see(self, change: Change) -> tuple[Owner, ...]:
        """Take a change in, unless it is older than what is seen. Returns the controllers before and after it."""
        key, revision = change.new.key, change.revision
        known = self._pods.get(key)
        if revision <= (known[0].revision if known else self._ends.get(key, 0)):
            return ()
        before = known[1] if known else None
        self._forget(key, before)
        if change.type == "DELETED":
            self._since.pop(key, None)
            self._end(key, revision)
            return (before,) if before else ()
        after = controller_of(change.new)
        self._pods[key] = change.new, after
        self._since.setdefault(key, revision)
        group = self._by_owner if after else self._orphans
        group.setdefault(after.uid if after else key[0], set()).add(key)
        return tuple({each.uid: each for each in (before, after) if each}.values())

    def of(self, uid: str) -> list[Stored]:
        """The pods that this owner controls, by name."""
        return self._sorted(self._by_owner.get(uid, set()))

    def orphans(self, namespace: str) -> list[Stored]:
        """The pods of a namespace that nobody controls, by name."""
        return self._sorted(self._orphans.get(namespace, set()))

    def is_orphan(self, key: Key) -> bool:
        return key in self._orphans.get(key[0], ())

    def since(self, key: Key) -> int:
        """A number that is higher for pods that were seen later for the first time."""
        return self._since.get(key, 0)

    def _sorted(self, keys: set[Key]) -> list[Stored]:
        return [self._pods[key][0] for key in sorted(keys)]

    def _forget(self, key: Key, owner: Owner | None) -> None:
        if self._pods.pop(key, None) is None:
            return
        group, name = (self._by_owner, owner.uid) if owner else (self._orphans, key[0])
        group[name].discard(key)
        if not group[name]:
            del group[name]

    def _end(self, key: Key, revision: int) -> None:
        self._ends.pop(key, None)
        self._ends[key] = revision
        if len(self._ends) > _REMEMBERED:
            self._ends.pop(next(iter(self._ends)))
