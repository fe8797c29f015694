"""Publishes the notices of the engine of vpods: one line in the log, and an Event on the object, for each.

A notice about a set is an Event on its VPodSet object, or on its StatefulSet if the set stands in the configuration.
Events are written as best effort; `core/kube_events.py` counts what happens again, and bounds how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import structlog

from extender.core.kube_events import Events
from extender.resources import GROUP, VERSION
from extender.vpods.engine import VPodEngine
from extender.vpods.notices import Notice
from extender.vpods.records import ObjectKey, VPodKey, VPodSource

log = structlog.get_logger(__name__)


class RecordNotice(msgspec.Struct, frozen=True, kw_only=True):
    """Create a Kubernetes Event on a vpod or on a set. Not reported."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    code: str
    text: str
    warning: bool
    term: int = 0

    @property
    def about(self) -> Mapping[str, str]:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


def events() -> Events[RecordNotice]:
    """How Events about vpods are written."""
    return Events(RecordNotice)


class NoticeBoard:
    """`submit` gets the Events. `kind_of` returns the kind of a source's objects, "" if it is not known; `set_uid`
    returns the UID of the VPodSet object with a key, "" if there is none."""

    def __init__(
        self,
        submit: Callable[[RecordNotice], None],
        *,
        kind_of: Callable[[str], str],
        set_uid: Callable[[ObjectKey], str],
        sources: Mapping[str, VPodSource],
        look: Callable[[Callable[[VPodEngine, float], tuple[str, str]]], tuple[str, str]],
    ) -> None:
        self._submit = submit
        self._kind_of = kind_of
        self._set_uid = set_uid
        self._sources = sources
        self._look = look

    def show(self, notice: Notice, term: int) -> None:
        """Log a notice, and have its Event written. Never blocks."""
        is_routine = isinstance(notice.about, VPodKey) and not notice.is_warning
        say = log.warning if notice.is_warning else log.debug if is_routine else log.info
        say(f"vpods: {notice.reason}", about=str(notice.about), message=notice.message)
        kind, api_version, name, uid = self._object(notice)
        if not (kind and uid):
            return
        self._submit(
            RecordNotice(
                api_version=api_version,
                kind=kind,
                namespace=notice.about.namespace,
                name=name,
                uid=uid,
                code=notice.reason,
                text=notice.message or notice.reason,
                warning=notice.is_warning,
                term=term,
            )
        )

    def _object(self, notice: Notice) -> tuple[str, str, str, str]:
        """Return kind, API version, name and UID of the object that a notice is about."""
        about = notice.about
        if isinstance(about, VPodKey):
            source = self._sources[about.source]
            version = f"{source.group}/{source.version}" if source.group else source.version
            return self._kind_of(about.source), version, about.name, notice.uid
        if uid := self._set_uid(about):
            return "VPodSet", f"{GROUP}/{VERSION}", about.name, uid
        name, uid = self._look(lambda engine, _: _workload(engine, about))
        return "StatefulSet", "apps/v1", name, uid


def _workload(engine: VPodEngine, key: ObjectKey) -> tuple[str, str]:
    """Return name and UID of the StatefulSet of a set; empty texts if it is not known."""
    hosted = engine.sets.get(key)
    found = hosted.workload if hosted is not None else None
    return (found.key.name, found.uid) if found is not None else ("", "")
