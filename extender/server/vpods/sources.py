"""Feeds the engine of vpods with vpods: VPod objects, and objects of the resources that the configuration names.

Sources of the same resource share an informer. An object can be a vpod of one source today and of another one tomorrow,
because a field has changed that `where` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extender.kube.informers.reflector import Change, ChangeKind, Reflector
from extender.server.vpods.informers import Informers
from extender.server.vpods.readers import Seen, vpods_of
from extender.vpods.events import VPodEvent, VPodGone, VPodSeen
from extender.vpods.records import VPodKey, VPodRecord, VPodSource


class _Resource:
    """One resource, and of which sources its objects are vpods."""

    def __init__(self, handle: Callable[..., None]) -> None:
        self._handle = handle
        #: The vpods of each object that has any, by its UID. Only the informer's thread uses it.
        self._vpods: dict[str, tuple[VPodKey, ...]] = {}

    def took(self, changes: list[Change[Seen]]) -> None:
        self._handle(*(event for change in changes for event in self._events(change)))

    def _events(self, change: Change[Seen]) -> Iterable[VPodEvent]:
        seen, before = change.obj, self._vpods.get(change.obj.uid, ())
        vpods: tuple[VPodRecord, ...] = () if change.kind is ChangeKind.GONE else seen.record
        now = tuple(each.key for each in vpods)
        if now:
            self._vpods[seen.uid] = now
        else:
            self._vpods.pop(seen.uid, None)
        yield from (VPodGone(key, seen.uid, exists=change.kind is ChangeKind.SEEN) for key in before if key not in now)
        yield from map(VPodSeen, vpods)


class SourceInformers:
    """One informer for each resource of these sources. `handle` gets the events."""

    def __init__(
        self,
        sources: Iterable[VPodSource],
        informers: Informers,
        handle: Callable[..., None],
    ) -> None:
        by_resource: dict[tuple[str, str, str], list[VPodSource]] = {}
        for source in sources:
            by_resource.setdefault((source.group, source.version, source.resource), []).append(source)
        self.all: tuple[Reflector[Seen], ...] = tuple(
            informers.make(vpods_of(each), _Resource(handle).took) for each in by_resource.values()
        )

    def start(self) -> None:
        for informer in self.all:
            informer.start()
