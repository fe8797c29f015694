"""Objects that are vpods of one source or another, from one informer."""

from __future__ import annotations

from typing import Any

import msgspec

from extender.core import field_paths
from extender.kube.informers.reflector import Change, ChangeKind
from extender.server.vpods.progress import Progress
from extender.server.vpods.readers import Seen, vpods_of
from extender.server.vpods.sources import _Resource
from extender.vpods.events import VPodEvent, VPodGone, VPodSeen
from extender.vpods.records import ObjectKey, VPodKey, VPodSource

KIND = field_paths.parse(".spec.kind")
COMMON = {"group": "g.test", "version": "v1", "resource": "groups", "set": ObjectKey("ns", "fleet")}
A = VPodSource(name="a", where=((KIND, "A"),), **COMMON)
B = VPodSource(name="b", where=((KIND, "B"),), **COMMON)


def seen(kind: str, *, sources: tuple[VPodSource, ...] = (A, B)) -> Seen:
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    obj: dict[str, Any] = {"kind": "Group", "metadata": metadata, "spec": {"kind": kind, "vreplicas": 4}}
    return vpods_of(sources).decode(msgspec.Raw(msgspec.json.encode(obj)))


def told(*changes: Change[Seen]) -> list[VPodEvent]:
    events: list[VPodEvent] = []
    resource = _Resource(lambda *each: events.extend(each), Progress(), {})
    resource.took(list(changes))
    return events


def shown(kind: str) -> Change[Seen]:
    return Change(ChangeKind.SEEN, seen(kind))


def test_an_object_is_a_vpod_of_the_source_whose_condition_it_meets() -> None:
    found = seen("B")
    assert (found.key, found.kind) == ("ns/x", "Group")
    assert [each.key for each in found.record] == [VPodKey("ns", "x", "b")]


def test_an_object_that_changes_its_source_leaves_the_old_one_first() -> None:
    before, left, after = told(shown("A"), shown("B"))
    assert isinstance(before, VPodSeen)
    assert left == VPodGone(VPodKey("ns", "x", "a"), "u", exists=True)
    assert isinstance(after, VPodSeen)
    assert after.vpod.key.source == "b"


def test_an_object_that_is_no_vpod_is_not_told() -> None:
    assert told(shown("C")) == []
    assert told(shown("A"), shown("C"))[1:] == [VPodGone(VPodKey("ns", "x", "a"), "u", exists=True)]


def test_a_deleted_object_is_gone() -> None:
    events = told(shown("A"), Change(ChangeKind.GONE, seen("A")))
    assert events[1:] == [VPodGone(VPodKey("ns", "x", "a"), "u", exists=False)]
