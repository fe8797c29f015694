"""Reads a vpod, when a watch has not shown what became of a write."""

from __future__ import annotations

import msgspec

from algorithm.decoding import DecodeError
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.requests import Request
from extender.vpods.records import VPodKey, VPodRecord, VPodSource
from extender.vpods.vpodreader import decode_vpod
from extender.vpods.writes.placements import vpod_path


class ReadVPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """GET a vpod. Reported by VPodRead."""

    token: int
    key: VPodKey
    source: VPodSource
    #: Of the vpod that is known under this name.
    uid: str


class VPodRead(msgspec.Struct, frozen=True):
    """The report of a ReadVPod. `vpod`: only with DONE; None then says that it is no vpod of its source any more."""

    key: VPodKey
    uid: str
    outcome: Outcome
    vpod: VPodRecord | None = None


def request(read: ReadVPod) -> Request:
    return Request("GET", vpod_path(read.source, read.key))


def report(read: ReadVPod, outcome: Outcome, body: bytes | None) -> VPodRead:
    """Decode the object here, where its source is known."""
    vpod = None
    if outcome.kind is OutcomeKind.DONE:
        try:
            vpod = decode_vpod(body or b"", read.source)
        except DecodeError as error:
            outcome = Outcome(OutcomeKind.UNKNOWN, f"the object cannot be read: {error}")
    return VPodRead(read.key, read.uid, outcome, vpod)


KIND = CommandKind(command=ReadVPod, request=request, report=report, reported_as=VPodRead, decode=bytes, is_read=True)
