"""Reads a pod live, when no watch has shown what became of a write."""

from __future__ import annotations

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, pod_path
from extender.ordering.podreader import decode_pod
from extender.ordering.records import PodKey, PodRecord


class ReadPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """GET a pod. Reported by PodRead."""

    token: int
    key: PodKey
    #: Of the pod that is known under this name.
    uid: str


class PodRead(msgspec.Struct, frozen=True):
    """The report of a ReadPod. `pod`: only with DONE, whatever its UID is now."""

    token: int
    key: PodKey
    uid: str
    outcome: Outcome
    pod: PodRecord | None = None


def request(read: ReadPod) -> Request:
    return Request("GET", pod_path(read.key.namespace, read.key.name))


def report(read: ReadPod, outcome: Outcome, pod: PodRecord | None) -> PodRead:
    return PodRead(read.token, read.key, read.uid, outcome, pod)


KIND = CommandKind(
    command=ReadPod, request=request, report=report, reported_as=PodRead, decode=decode_pod, is_read=True
)
