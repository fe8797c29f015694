"""Feeds the engine of vpods with the StatefulSets and pods of the namespaces that have sets.

    set in a new namespace --> two informers, listing --> both synced --> `changed`: the set can be served
    last set of a namespace goes --> the informers stop; the engine gets an end for each object that they showed

The informer of pods asks only for pods that a StatefulSet made (by the label that its controller gives them), so that a
namespace with many other pods costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from extender.kube.informers.reflector import Change, ChangeKind, Reflector
from extender.server.informers import Informers
from extender.server.vpods.readers import Seen, pods_in, workloads_in
from extender.vpods.events import HostPodGone, HostPodSeen, VPodEvent, WorkloadGone, WorkloadSeen
from extender.vpods.records import HostPod, Workload


class _Namespace:
    """The two informers of one namespace, and what they have shown."""

    def __init__(self, name: str, informers: Informers, handle: Callable[..., None], changed: Callable[[], None]):
        self._handle = handle
        self._lock = threading.Lock()
        self._is_over = False
        self._shown: dict[str, Seen] = {}
        self.both: tuple[Reflector[Seen], Reflector[Seen]] = (
            informers.make(workloads_in(name), self._took, on_synced=changed),
            informers.make(pods_in(name), self._took, on_synced=changed),
        )

    @property
    def is_known(self) -> bool:
        return all(each.synced.is_set() for each in self.both)

    def _took(self, changes: list[Change[Seen]]) -> None:
        with self._lock:
            if self._is_over:
                return
            for change in changes:
                if change.kind is ChangeKind.SEEN:
                    self._shown[change.obj.uid] = change.obj
                else:
                    self._shown.pop(change.obj.uid, None)
            self._handle(*(_event(change.obj, is_gone=change.kind is ChangeKind.GONE) for change in changes))

    def end(self) -> None:
        """Tell the engine that all objects of this namespace are gone. It gets no event afterwards."""
        with self._lock:
            self._is_over = True
            self._handle(*(_event(each, is_gone=True) for each in self._shown.values()))
            self._shown.clear()


def _event(seen: Seen, *, is_gone: bool) -> VPodEvent:
    record: HostPod | Workload = seen.record
    if isinstance(record, HostPod):
        return HostPodGone(record.key, record.uid) if is_gone else HostPodSeen(record)
    return WorkloadGone(record.key) if is_gone else WorkloadSeen(record)


class HostInformers:
    """Two informers for each namespace that has sets: StatefulSets and their pods.

    `handle` gets the events. `changed` is called when an informer has delivered its first list.
    """

    def __init__(self, informers: Informers, handle: Callable[..., None], changed: Callable[[], None]) -> None:
        self._informers = informers
        self._handle = handle
        self._changed = changed
        self._lock = threading.Lock()
        self._by_name: dict[str, _Namespace] = {}
        self._is_stopped = False

    def watch(self, namespaces: Iterable[str]) -> None:
        """Watch these namespaces, and no others."""
        wanted = set(namespaces)
        with self._lock:
            if self._is_stopped:
                return
            made = {
                name: _Namespace(name, self._informers, self._handle, self._changed)
                for name in sorted(wanted - self._by_name.keys())
            }
            gone = [self._by_name.pop(name) for name in self._by_name.keys() - wanted]
            self._by_name |= made
        for namespace in made.values():
            for informer in namespace.both:
                informer.start()
        for namespace in gone:
            for informer in namespace.both:
                self._informers.drop(informer)
            namespace.end()

    def is_known(self, name: str) -> bool:
        """Whether the StatefulSets and the pods of a namespace have been listed."""
        found = self._by_name.get(name)
        return found is not None and found.is_known

    def trouble(self, name: str) -> str:
        """Why a namespace is not known; "" if it is, or if nothing has gone wrong yet."""
        found = self._by_name.get(name)
        failed = (each for each in found.both if each.last_error and not each.synced.is_set()) if found else ()
        return next((f"{each.name}: {each.last_error}" for each in failed), "")

    @property
    def all(self) -> tuple[Reflector[Seen], ...]:
        """The informers that run, by namespace."""
        with self._lock:
            return tuple(each for name in sorted(self._by_name) for each in self._by_name[name].both)

    def stop(self) -> None:
        """Watch no further namespace. The informers are stopped by `Informers.stop`."""
        with self._lock:
            self._is_stopped = True
