"""Reads a pod from the API server, to find out how a write ended."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extender.claims.records import WarmPod
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, pod_path


class LookAtPod(msgspec.Struct, frozen=True, gc=False):
    """GET the pod from the API server, not from any cache. Reported by PodLooked."""

    token: int
    namespace: str
    name: str


class PodLooked(msgspec.Struct, frozen=True, gc=False):
    """The report of a LookAtPod: DONE with the pod of this name, whose UID may be another; GONE if there is none."""

    token: int
    outcome: Outcome
    pod: WarmPod | None = None


def request(look: LookAtPod) -> Request:
    return Request("GET", pod_path(look.namespace, look.name))


def report(look: LookAtPod, outcome: Outcome, pod: WarmPod | None) -> PodLooked:
    return PodLooked(look.token, outcome, pod)


def kind(decode: Callable[[bytes], WarmPod]) -> CommandKind[LookAtPod, WarmPod, PodLooked]:
    """Return the kind. `decode` makes the record of a pod as informers make it, and raises DecodeError."""
    return CommandKind(
        command=LookAtPod, request=request, report=report, reported_as=PodLooked, decode=decode, is_read=True
    )
