"""Reads a vpod, when a watch has not shown what became of a write."""

from __future__ import annotations

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, collection_path, object_path
from extender.vpods.records import ObjectKey, VPodRecord
from extender.vpods.vpodreader import decode_vpod
from extender.vpods.writes.placements import GROUP, RESOURCE, VERSION


class ReadVPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """GET a vpod. Reported by VPodRead."""

    token: int
    key: ObjectKey
    #: Of the vpod that is known under this name.
    uid: str


class VPodRead(msgspec.Struct, frozen=True):
    """The report of a ReadVPod. `vpod`: only with DONE."""

    key: ObjectKey
    uid: str
    outcome: Outcome
    vpod: VPodRecord | None = None


def request(read: ReadVPod) -> Request:
    path = collection_path(RESOURCE, group=GROUP, version=VERSION, namespace=read.key.namespace)
    return Request("GET", object_path(path, read.key.name))


def report(read: ReadVPod, outcome: Outcome, vpod: VPodRecord | None) -> VPodRead:
    return VPodRead(read.key, read.uid, outcome, vpod)


KIND = CommandKind(
    command=ReadVPod, request=request, report=report, reported_as=VPodRead, decode=decode_vpod, is_read=True
)
