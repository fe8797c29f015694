"""Writes the annotation that records a preemption on a waiting pod, or removes it."""

from __future__ import annotations

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, annotation_request, pod_path

#: On every preemptor, from before the first eviction until the preemption is over.
ANNOTATION = "waggle.dev/preemption"
#: Largest length of it, characters. It names as many victims as fit.
LONGEST_RECORD = 4096


class RecordPreemption(msgspec.Struct, frozen=True):
    """PATCH the annotation of a preemption on a waiting pod, if the `term` still lasts; "" removes it.

    Not after `valid_for` seconds. Reported by PreemptionRecorded.
    """

    token: int
    namespace: str
    name: str
    uid: str
    value: str
    term: int = 0
    valid_for: float = 20.0


class PreemptionRecorded(msgspec.Struct, frozen=True):
    """The report of a RecordPreemption on the pod `uid`."""

    token: int
    outcome: Outcome
    uid: str = ""


def request(mark: RecordPreemption) -> Request:
    return annotation_request(pod_path(mark.namespace, mark.name), mark.uid, ANNOTATION, mark.value or None)


def report(mark: RecordPreemption, outcome: Outcome, _: None) -> PreemptionRecorded:
    return PreemptionRecorded(mark.token, outcome, mark.uid)


KIND = CommandKind(
    command=RecordPreemption, request=request, report=report, reported_as=PreemptionRecorded, delays_handover=True
)
