"""Reads one pod live, from the API server and not from any cache."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from algorithm.model import Pod
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, pod_path


class ReadPod(msgspec.Struct, frozen=True):
    """GET the pod live (not from any cache). Reported by PodRead."""

    token: int
    namespace: str
    name: str
    uid: str


class PodRead(msgspec.Struct, frozen=True):
    """The report of a ReadPod: the pod as it is on the API server now, or why it could not be read.

    `outcome` is DONE with the pod (whatever its UID is now), GONE without one; any other: it could not be read.
    """

    token: int
    outcome: Outcome
    pod: Pod | None = None


def request(read: ReadPod) -> Request:
    return Request("GET", pod_path(read.namespace, read.name))


def report(read: ReadPod, outcome: Outcome, pod: Pod | None) -> PodRead:
    return PodRead(read.token, outcome, pod)


def kind(decode: Callable[[bytes], Pod]) -> CommandKind[ReadPod, Pod, PodRead]:
    """Return the kind. `decode` makes the record of a pod as informers make it, and raises DecodeError."""
    return CommandKind(
        command=ReadPod, request=request, report=report, reported_as=PodRead, decode=decode, is_read=True
    )
