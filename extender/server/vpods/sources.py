"""Feeds the engine of vpods with vpods: VPod objects, and objects of the resources that the configuration names.

Sources of the same resource share an informer. An object can be a vpod of one source today and of another one tomorrow,
because a field has changed that `where` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extender.kube.informers.reflector import Change, ChangeKind, Reflector
from extender.server.informers import Informers
from extender.server.vpods.path_check import PathCheck
from extender.server.vpods.progress import Progress
from extender.server.vpods.readers import Seen, vpods_of
from extender.vpods.events import VPodEvent, VPodGone, VPodSeen
from extender.vpods.records import VPodRecord, VPodSource


class _Resource:
    """One resource, and of which sources its objects are vpods."""

    def __init__(self, handle: Callable[..., None], progress: Progress, kinds: dict[str, str]) -> None:
        self._handle = handle
        self._progress = progress
        self._kinds = kinds
        #: The vpods of each object that has any, by its UID. Only the informer's thread uses it.
        self._vpods: dict[str, tuple[VPodRecord, ...]] = {}

    def took(self, changes: list[Change[Seen]]) -> None:
        self._handle(*(event for change in changes for event in self._events(change)))

    def _events(self, change: Change[Seen]) -> Iterable[VPodEvent]:
        seen = change.obj
        before = {each.key: each for each in self._vpods.pop(seen.uid, ())}
        vpods: tuple[VPodRecord, ...] = () if change.kind is ChangeKind.GONE else seen.record
        if vpods:
            self._vpods[seen.uid] = vpods
        for vpod in vpods:
            self._kinds[vpod.key.source] = seen.kind or self._kinds.get(vpod.key.source, "")
            self._progress.seen(before.pop(vpod.key, None), vpod)
        for key in before:
            self._progress.gone(key)
            yield VPodGone(key, seen.uid, exists=change.kind is ChangeKind.SEEN)
        yield from map(VPodSeen, vpods)


class SourceInformers:
    """One informer for each resource of these sources. `handle` gets the events."""

    def __init__(self, sources: Iterable[VPodSource], informers: Informers, handle: Callable[..., None]) -> None:
        self.sources = {each.name: each for each in sources}
        #: The kinds of the objects, by the name of their source: known once there is one.
        self.kinds: dict[str, str] = {}
        self.progress = Progress()
        by_resource: dict[tuple[str, str, str], list[VPodSource]] = {}
        for source in self.sources.values():
            by_resource.setdefault((source.group, source.version, source.resource), []).append(source)
        self._checks = [PathCheck(each) for each in by_resource.values()]
        self.all: tuple[Reflector[Seen], ...] = tuple(
            informers.make(vpods_of(each, check.look), _Resource(handle, self.progress, self.kinds).took)
            for each, check in zip(by_resource.values(), self._checks, strict=True)
        )

    def warning(self) -> str:
        """What is wrong with a path of the configuration; "" if nothing is."""
        return next((text for check in self._checks if (text := check.warning())), "")

    def start(self) -> None:
        for informer in self.all:
            informer.start()
